//! Estimates the memory of jobs, so that only as many run at a time as fit.

use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of any process.
const PROCESS: u64 = 64 << 20;
/// Peak memory of LLVM per instruction before optimization.
const LLVM_BYTES: u64 = 6 << 10;
/// Memory of ptxas per byte of PTX, until this link has measured it. Kernels differ widely.
const PTXAS_FACTOR: u64 = 160;

/// Estimates that improve while the link runs.
#[derive(Debug)]
pub struct Estimates {
    /// The most that ptxas has needed per byte of PTX.
    ptxas_factor: AtomicU64,
    seen: AtomicU64,
}

impl Default for Estimates {
    fn default() -> Self {
        Estimates { ptxas_factor: AtomicU64::new(PTXAS_FACTOR), seen: AtomicU64::new(0) }
    }
}

impl Estimates {
    /// Bytes that LLVM needs for a partition of this many instructions.
    pub fn llvm(&self, instructions: u64) -> u64 {
        PROCESS + instructions.saturating_mul(LLVM_BYTES)
    }

    /// Bytes that a tool such as ptxas needs for a text of this many bytes.
    pub fn tool(&self, text: u64) -> u64 {
        PROCESS + text.saturating_mul(self.ptxas_factor.load(Ordering::Relaxed))
    }

    /// Records that a tool needed `peak` bytes for a text of this many bytes.
    pub fn learn(&self, text: u64, peak: u64) {
        // Small inputs are ignored: the process itself dominates their peak.
        if text < 64 << 10 || peak == 0 {
            return;
        }
        let factor = peak.saturating_sub(PROCESS) / text + 1;
        let seen = self.seen.fetch_max(factor, Ordering::Relaxed).max(factor);
        self.ptxas_factor.store(seen, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_counts_more_than_what_was_guessed() {
        let estimates = Estimates::default();
        let guess = estimates.tool(1 << 20);
        estimates.learn(1 << 20, PROCESS + (10 << 20));
        assert!(estimates.tool(1 << 20) < guess);
        estimates.learn(1 << 20, PROCESS + (90 << 20));
        estimates.learn(1 << 20, PROCESS + (20 << 20));
        assert!(estimates.tool(1 << 20) >= 90 << 20);
        assert!(estimates.llvm(100_000) > estimates.llvm(1));
    }
}
