//! Who holds a lease, and whether it is known to be dead.
//!
//! A process number alone says little: numbers are used again, and every container counts its own.
//! So a holder also names the boot of the machine, the process's pid namespace and its start time
//! (`proc_pid_stat(5)`, field 22). Only where boot and namespace are the same as here does a number
//! mean the same process here and there.

use std::sync::OnceLock;

use rethread_core::Holder;

/// This process as the holder of a lease.
///
/// On Linux [`Holder::instance`] is `linux:BOOT:NAMESPACE:START`: the boot id, the number of the pid
/// namespace, and the start time in clock ticks since boot. Elsewhere, or where `/proc` does not
/// tell, it is `random:` and a number that no other process has.
#[must_use]
pub fn this_process() -> &'static Holder {
    static HOLDER: OnceLock<Holder> = OnceLock::new();
    HOLDER.get_or_init(|| Holder {
        host: host_name(),
        pid: std::process::id(),
        instance: Instance::of_this_process().map_or_else(
            || format!("random:{:016x}", random()),
            |instance| instance.to_string(),
        ),
    })
}

/// Whether a holder is certainly dead: it ran on this machine since it was last started, its
/// process number means the same here, and there is no such process now or it is another one.
///
/// False whenever that cannot be told, such as for a holder on another machine, in another
/// container, or on a system without `/proc`.
#[must_use]
pub fn is_known_dead(holder: &Holder) -> bool {
    let (Some(theirs), Some(ours)) = (
        Instance::parse(&holder.instance),
        Instance::parse(&this_process().instance),
    ) else {
        return false;
    };
    if theirs.boot != ours.boot || theirs.namespace != ours.namespace {
        return false;
    }
    match process_state(holder.pid) {
        ProcessState::Gone => true,
        ProcessState::Started(start) => start != theirs.start,
        ProcessState::Unknown => false,
    }
}

/// A number that is practically never the same twice, for telling processes and waits apart.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[derive(Debug, PartialEq, Eq)]
struct Instance<'a> {
    boot: std::borrow::Cow<'a, str>,
    namespace: u64,
    start: u64,
}

impl<'a> Instance<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut fields = text.strip_prefix("linux:")?.split(':');
        let instance = Self {
            boot: fields.next()?.into(),
            namespace: fields.next()?.parse().ok()?,
            start: fields.next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(instance)
    }
}

impl std::fmt::Display for Instance<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "linux:{}:{}:{}", self.boot, self.namespace, self.start)
    }
}

enum ProcessState {
    /// There is none with this number, or it has ended and only waits to be reaped.
    Gone,
    /// It runs; when it started.
    Started(u64),
    Unknown,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::path::Path;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use super::{Instance, ProcessState};

    impl Instance<'_> {
        pub(super) fn of_this_process() -> Option<Self> {
            let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
            let namespace = namespace.to_str()?.strip_prefix("pid:[")?;
            let (_, start) = stat("self")?;
            Some(Self {
                boot: boot.trim().to_owned().into(),
                namespace: namespace.strip_suffix(']')?.parse().ok()?,
                start,
            })
        }
    }

    pub(super) fn process_state(pid: u32) -> ProcessState {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return ProcessState::Unknown;
        };
        // The kernel is asked first because `/proc` may hide the processes of other users, and may
        // have been mounted in another pid namespace.
        if test_kill_process(number) == Err(Errno::SRCH) {
            return ProcessState::Gone;
        }
        let own = std::process::id().to_string();
        if fs::read_link("/proc/self").ok().as_deref() != Some(Path::new(&own)) {
            return ProcessState::Unknown;
        }
        match stat(&pid.to_string()) {
            Some(('Z' | 'X' | 'x', _)) => ProcessState::Gone,
            Some((_, start)) => ProcessState::Started(start),
            None => ProcessState::Unknown,
        }
    }

    /// The state and the start time of a process.
    fn stat(process: &str) -> Option<(char, u64)> {
        let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The second field is the name in parentheses, which may hold spaces and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let start = fields.nth(18)?.parse().ok()?;
        Some((state, start))
    }
}

#[cfg(target_os = "linux")]
use linux::process_state;

#[cfg(not(target_os = "linux"))]
impl Instance<'_> {
    fn of_this_process() -> Option<Self> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
fn process_state(_pid: u32) -> ProcessState {
    ProcessState::Unknown
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".to_owned())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn instance_of(pid: u32) -> Holder {
        let ProcessState::Started(start) = process_state(pid) else {
            panic!("process {pid} does not run");
        };
        let ours = Instance::parse(&this_process().instance).unwrap();
        Holder {
            host: this_process().host.clone(),
            pid,
            instance: Instance { start, ..ours }.to_string(),
        }
    }

    #[test]
    fn a_process_is_dead_once_it_is_killed_even_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let holder = instance_of(child.id());
        assert!(!is_known_dead(&holder));
        child.kill().unwrap();
        // A signal takes a moment to arrive.
        while !is_known_dead(&holder) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_known_dead(&holder));
    }

    #[test]
    fn this_process_lives() {
        assert_eq!(&instance_of(std::process::id()), this_process());
        assert!(!is_known_dead(this_process()));
    }

    #[test]
    fn a_number_that_was_used_again_is_another_process() {
        let ours = Instance::parse(&this_process().instance).unwrap();
        let with = |instance: Instance<'_>| Holder {
            instance: instance.to_string(),
            ..this_process().clone()
        };
        let (boot, namespace, start) = (&ours.boot, ours.namespace, ours.start);
        assert!(is_known_dead(&with(Instance {
            boot: boot.clone(),
            namespace,
            start: start - 1
        })));
        assert!(
            !is_known_dead(&with(Instance {
                boot: boot.clone(),
                namespace: namespace + 1,
                start: start - 1
            })),
            "another container counts its own processes"
        );
        assert!(
            !is_known_dead(&with(Instance {
                boot: "another-boot".into(),
                namespace,
                start: start - 1
            })),
            "another machine"
        );
    }

    #[test]
    fn what_cannot_be_told_is_not_dead() {
        for instance in ["", "linux:", "linux:a:b:c", "random:00", "linux:a:1:2:3"] {
            let holder = Holder {
                host: "elsewhere".into(),
                pid: u32::MAX,
                instance: instance.into(),
            };
            assert!(!is_known_dead(&holder), "{instance}");
        }
    }
}
