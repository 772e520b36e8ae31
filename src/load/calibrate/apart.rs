//! Gives the servers' processes other processors than this program, for as long as something is compared there.

#[cfg(target_os = "linux")]
pub(super) use linux::Apart;

/// Other systems have no such thing.
#[cfg(not(target_os = "linux"))]
pub(super) struct Apart;

#[cfg(not(target_os = "linux"))]
impl Apart {
    pub(super) fn of(_: &[u32]) -> Option<Self> {
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io;

    use rustix::io::Errno;
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Dropped, all may run everywhere again.
    pub struct Apart {
        threads: Vec<Kept>,
    }

    struct Kept {
        thread: Pid,
        /// What it might use before.
        before: CpuSet,
    }

    impl Apart {
        /// This program gets the first of its processors, the servers get the others. `None` where there is only one, where these
        /// are no processes of this host, or where the system refuses.
        pub fn of(servers: &[u32]) -> Option<Self> {
            let all = sched_getaffinity(None).ok()?;
            let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
            let [first, others @ ..] = usable.as_slice() else { return None };
            if others.is_empty() || servers.is_empty() {
                return None;
            }
            let mut apart = Self { threads: Vec::new() };
            let mut all_kept = apart.keep(std::process::id(), &[*first]).is_ok();
            for server in servers {
                all_kept &= apart.keep(*server, others).is_ok();
            }
            all_kept.then_some(apart)
        }

        /// Keeps all threads of a process on these processors; those that it starts later inherit that.
        fn keep(&mut self, process: u32, processors: &[usize]) -> io::Result<()> {
            let mut only = CpuSet::new();
            processors.iter().for_each(|cpu| only.set(*cpu));
            for task in fs::read_dir(format!("/proc/{process}/task"))? {
                let id = task?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
                let Some(thread) = id else { continue };
                let kept = sched_getaffinity(Some(thread)).and_then(|before| {
                    sched_setaffinity(Some(thread), &only)?;
                    Ok(Kept { thread, before })
                });
                match kept {
                    Ok(kept) => self.threads.push(kept),
                    // It has ended meanwhile.
                    Err(Errno::SRCH) => {}
                    Err(why) => return Err(why.into()),
                }
            }
            Ok(())
        }
    }

    impl Drop for Apart {
        fn drop(&mut self) {
            for Kept { thread, before } in &self.threads {
                // It may have ended meanwhile.
                let _ = sched_setaffinity(Some(*thread), before);
            }
        }
    }
}
