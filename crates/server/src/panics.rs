//! A panic is a bug, or memory that has run out: it is written into the log, where whoever looks for the cause in the morning looks first.
//! A daemon's standard error, where Rust reports it, leads nowhere. No stack is shown: making it readable takes memory and locks, and a
//! server that hangs is worse than one that ends.

/// From now on what a panic says, and where it comes from, is also a line of the log.
pub fn log_them() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        log::error!(
            "Darter {} ends: thread '{}' {panic}",
            env!("CARGO_PKG_VERSION"),
            thread.name().unwrap_or("?")
        );
        report(panic);
    }));
}
