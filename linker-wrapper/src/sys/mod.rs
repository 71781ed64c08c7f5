//! The operating system: processes, files, memory, and jobs that run side by side.

pub mod cache;
pub mod error;
pub mod file_times;
pub mod fork_server;
pub mod job_queue;
pub mod jobserver;
pub mod mapped_file;
pub mod memory;
pub mod process;
pub mod signals;
pub mod stamp;
pub mod temp_files;
pub mod threads;
pub mod written_path;
