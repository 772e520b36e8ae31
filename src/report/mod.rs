//! Renderers. (stub, not committed)
#![allow(missing_docs)]
use crate::results::StoredRun;
pub struct View(String);
impl View {
    pub fn of(r: &StoredRun) -> Self {
        let mut s = String::new();
        for t in &r.trials {
            s += &format!("{} {} {:?}\n", t.label, t.contenders, t.exclusion);
        }
        Self(s)
    }
}
pub struct Style {
    pub colour: bool,
    pub width: Option<u16>,
}
pub fn terminal(v: &View, _s: Style) -> String {
    v.0.clone()
}
pub fn markdown(v: &View) -> String {
    v.0.clone()
}
pub mod chart {
    pub struct Drawn {
        pub left_out: Vec<(String, String)>,
    }
    pub fn draw_all(_v: &super::View, _d: &std::path::Path) -> Result<Drawn, crate::error::Error> {
        Ok(Drawn { left_out: vec![] })
    }
}
