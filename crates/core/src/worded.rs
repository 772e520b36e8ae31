//! Enums with a text for each variant.

/// Defines an enum, the list `ALL` of its variants in order, and a method that returns a variant's text.
#[macro_export]
macro_rules! worded {
    (
        $(#[$about:meta])*
        $vis:vis enum $Kind:ident by $word:ident { $($(#[$each:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$about])*
        $vis enum $Kind { $($(#[$each])* $variant,)* }

        impl $Kind {
            #[allow(dead_code, reason = "some enums are never listed")]
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            pub const fn $word(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
