//! What a link reports while it runs.

use std::ffi::c_void;
use std::ops::ControlFlow;

use fatlink::Event;

use crate::result::{Texts, fatlink_diagnostic};

/// What an event is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fatlink_event_kind {
    /// Nothing has happened for 50 ms.
    Waiting = 0,
    /// The numbers of jobs have changed.
    Jobs = 1,
    /// There is a message. The result has it, too.
    Message = 2,
}

/// What a link reports while it runs. It is valid until the observer returns.
#[repr(C)]
pub struct fatlink_event {
    /// What it is.
    pub kind: fatlink_event_kind,
    /// How many jobs have ended.
    pub done: u64,
    /// How many jobs the link knows of. A link may learn of more as it runs.
    pub known: u64,
    /// The message, or null.
    pub diagnostic: *const fatlink_diagnostic,
}

/// Gets the events of a link in the thread that runs it, with the data that the link was given. Returns 0, or another number to cancel
/// the link.
pub type fatlink_observer = Option<unsafe extern "C" fn(data: *mut c_void, event: *const fatlink_event) -> i32>;

/// A function of C and its data.
pub struct Observer {
    /// The function.
    pub observe: unsafe extern "C" fn(data: *mut c_void, event: *const fatlink_event) -> i32,
    /// What it gets.
    pub data: *mut c_void,
}

// SAFETY: the header says that the function is called in the threads that run the link, and that it must be fit for that.
unsafe impl Send for Observer {}
// SAFETY: as above.
unsafe impl Sync for Observer {}

impl Observer {
    /// Passes an event on.
    pub fn see(&self, event: &Event<'_>) -> ControlFlow<()> {
        let none = fatlink_event { kind: fatlink_event_kind::Waiting, done: 0, known: 0, diagnostic: std::ptr::null() };
        match event {
            Event::Jobs { done, known } => {
                self.call(&fatlink_event { kind: fatlink_event_kind::Jobs, done: *done, known: *known, ..none })
            }
            Event::Diagnostic(diagnostic) => {
                let texts = Texts::from(*diagnostic);
                let diagnostic = texts.pointers();
                let kind = fatlink_event_kind::Message;
                self.call(&fatlink_event { kind, diagnostic: &raw const diagnostic, ..none })
            }
            _ => self.call(&none),
        }
    }

    fn call(&self, event: &fatlink_event) -> ControlFlow<()> {
        // SAFETY: the function is what its type says, and the event outlives the call.
        match unsafe { (self.observe)(self.data, event) } {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}
