//! How many cores the process may use, by affinity mask and control-group quota; pinning threads to them; how long they run at a time. Reads `/proc` and
//! `/sys/fs/cgroup`; what cannot be read does not limit.
#![allow(unsafe_code, reason = "system calls of the scheduler")]

use std::io;
use std::path::Path;
use std::time::Duration;

/// The cores lent to this process.
#[derive(Clone, Debug)]
pub struct Cores {
    /// Numbers of the cores in the affinity mask, ascending; never empty.
    pub allowed: Vec<usize>,
    /// CPU time per time that the control group grants, if it limits it (2.5 = two and a half cores).
    pub quota: Option<f64>,
    /// Cores the machine has online.
    pub online: usize,
}

impl Cores {
    /// Threads worth running: the cores allowed, or fewer if the quota is less (rounded up).
    #[must_use]
    pub fn usable(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |quota| quota.ceil().max(1.0) as usize);
        self.allowed.len().min(quota)
    }

    /// Whether the whole machine is ours, so that pinning threads cannot put two tenants on one core while another idles.
    #[must_use]
    pub fn is_whole_machine(&self) -> bool {
        self.quota.is_none() && self.allowed.len() >= self.online
    }
}

/// What the process may use now.
#[must_use]
pub fn cores() -> Cores {
    let allowed = allowed().unwrap_or_else(|_| vec![0]);
    // SAFETY: sysconf takes no pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let online = usize::try_from(online).unwrap_or(1).max(1);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Cores { allowed, quota: quota(Path::new("/sys/fs/cgroup"), &groups), online }
}

/// Cores that fit into the mask handed to the kernel: more than the largest kernel configuration (8192).
const CORES_MAX: usize = 16 << 10;
const WORD_BITS: usize = u64::BITS as usize;

/// The calling thread's affinity mask as a list.
fn allowed() -> io::Result<Vec<usize>> {
    let mut mask = [0u64; CORES_MAX / WORD_BITS];
    // SAFETY: `mask` is writable for the size given.
    let result = unsafe {
        libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast::<libc::cpu_set_t>())
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_set = |core: &usize| mask[core / WORD_BITS] >> (core % WORD_BITS) & 1 == 1;
    let cores: Vec<usize> = (0..CORES_MAX).filter(is_set).collect();
    if cores.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(cores) }
}

/// Lets the calling thread run on `core` only.
pub fn pin_current_thread(core: usize) -> io::Result<()> {
    let mut mask = [0u64; CORES_MAX / WORD_BITS];
    let word = mask.get_mut(core / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (core % WORD_BITS);
    // SAFETY: `mask` is readable for the size given.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast::<libc::cpu_set_t>()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What `sched_setattr` takes; the kernel's `struct sched_attr`, first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks the kernel to run the calling thread in slices of about so long instead of its default (3 ms or so): with a short one a thread that was
/// woken has its turn sooner when others want its core, and gives it back sooner. Linux 6.12 and later; others ignore it.
pub fn ask_for_slices(slice: Duration) -> io::Result<()> {
    // SAFETY: getpriority takes no pointers. -1 may be an error, which for our own thread there is not, or the nice value.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: libc::SCHED_OTHER as u32,
        nice,
        runtime_ns: slice.as_nanos() as u64,
        ..SchedAttr::default()
    };
    // SAFETY: the kernel reads `size` bytes of the structure.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The tightest CPU limit among the process's control groups and their ancestors. `groups` is `/proc/self/cgroup`: lines of
/// `0::/path` (version 2) or `4:cpu,cpuacct:/path` (version 1).
fn quota(root: &Path, groups: &str) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        // Version 1 mounts each set of controllers under its own name; "cpu" is usually a link to it.
        let mounts: &[&str] = match controllers {
            "" => &["", "unified"],
            _ if controllers.split(',').any(|name| name == "cpu") => &["cpu", "cpu,cpuacct", "cpuacct,cpu"],
            _ => continue,
        };
        for mount in mounts {
            // In a container the path may be the host's while the mount shows the container's part only: the mount itself counts, too.
            let relative = Path::new(path.trim_start_matches('/'));
            let limits = relative.ancestors().filter_map(|group| limit(&root.join(mount).join(group)));
            tightest = limits.chain(tightest).reduce(f64::min);
        }
    }
    tightest
}

/// The CPU limit of one group's folder.
fn limit(group: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let mut words = text.split_whitespace().map(str::to_owned);
            (words.next()?, words.next()?)
        }
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    // Unlimited is "max" in version 2 and -1 in version 1.
    let quota: f64 = quota.trim().parse().ok()?;
    let period: f64 = period.trim().parse().ok()?;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(quota: Option<f64>) -> usize {
        Cores { allowed: (0..8).collect(), quota, online: 8 }.usable()
    }

    #[test]
    fn quotas_round_up() {
        assert_eq!(usable(None), 8);
        assert_eq!(usable(Some(2.0)), 2);
        assert_eq!(usable(Some(2.1)), 3);
        assert_eq!(usable(Some(0.2)), 1);
        assert_eq!(usable(Some(64.0)), 8);
    }

    #[test]
    fn finds_the_tightest_limit() {
        let root = std::env::temp_dir().join(format!("darter-cgroup-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("pods/one/cpu.max", "max 100000\n");
        write("pods/cpu.max", "250000 100000\n");
        assert_eq!(quota(&root, "0::/pods/one\n"), Some(2.5));
        assert_eq!(quota(&root, "0::/\n"), None);
        write("cpu.max", "50000 100000\n");
        assert_eq!(quota(&root, "0::/not/visible/here\n"), Some(0.5));

        write("cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
        write("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(&root, "5:memory:/x\n4:cpu,cpuacct:/a/b\n"), Some(3.0));
        write("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
        assert_eq!(quota(&root, "4:cpu,cpuacct:/a/b\n"), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn slices_change_and_priority_stays() {
        std::thread::spawn(|| {
            // SAFETY: takes no pointers.
            let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            let before = nice();
            match ask_for_slices(Duration::from_micros(100)) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "a sandbox may forbid it")
                }
            }
            assert_eq!(nice(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn this_machine() {
        let cores = cores();
        assert!(cores.usable() >= 1 && cores.usable() <= cores.allowed.len());
        let core = cores.allowed[cores.allowed.len() - 1];
        std::thread::spawn(move || {
            pin_current_thread(core).unwrap();
            assert_eq!(allowed().unwrap(), [core]);
        })
        .join()
        .unwrap();
        assert!(pin_current_thread(CORES_MAX).is_err());
    }
}
