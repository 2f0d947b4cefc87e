//! Ctrl-C.

use std::process;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Code;
use crate::term;

/// Cancels a token at the first Ctrl-C (or request to terminate, or a closed terminal) and ends the program at the second.
///
/// A thread of its own listens, so that the second is heard whatever the first interrupts.
pub(crate) fn watch(cancel: &CancellationToken) {
    let cancel = cancel.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        // Without signals Ctrl-C ends the program at once, which a session survives too.
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
                signal(SignalKind::hangup()),
            ) else {
                return;
            };
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if cancel.is_cancelled() {
                    process::exit(i32::from(Code::Cancelled as u8));
                }
                cancel.cancel();
                term::say("\ncancelling; once more leaves at once");
            }
        });
    });
}
