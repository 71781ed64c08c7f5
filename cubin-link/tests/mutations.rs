//! Damaged inputs: a link ends with a cubin or a reason, and never with a panic.

mod generator;
mod tools;

use std::path::PathBuf;

use cubin_link::{Input, link};
use generator::{Features, Program, Random};
use tools::{path, ptxas};

const TARGET: &str = "sm_90";
/// For a longer run: `CUBIN_LINK_MUTATIONS=100000 cargo test --release -p cubin-link --test mutations`.
const MUTATIONS: &str = "CUBIN_LINK_MUTATIONS";

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            // Counts, offsets and numbers of sections and symbols.
            2 => {
                let word = [0_u32, 1, 0xff, 0xffff, 0x7fff_ffff, u32::MAX, bytes.len() as u32][random.below(7)];
                let at = at & !3;
                if let Some(place) = bytes.get_mut(at..at + 4) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
            }
            3 => {
                let from = random.below(bytes.len());
                let length = random.below(64).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + length, at);
            }
            // The tables at the end of the file are small, and damage there is seen late.
            4 => {
                let at = bytes.len() - 1 - random.below((bytes.len() / 4).max(1));
                bytes[at] = random.below(256) as u8;
            }
            _ if random.percent(20) => bytes.truncate(at),
            _ => {}
        }
        if bytes.is_empty() {
            return;
        }
    }
}

#[test]
fn damaged_units_do_not_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = std::env::var(MUTATIONS).ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let mut programs: Vec<(Vec<PathBuf>, Vec<Vec<u8>>)> = Vec::new();
    for seed in 1..9 {
        let program = Program::new(seed, TARGET, Features { weak: seed % 2 == 0, ..Features::ALL });
        let name = |unit: usize| format!("p{seed}u{unit}");
        let objects: Vec<PathBuf> =
            (0..program.units).map(|unit| ptxas(folder.path(), &name(unit), &program.ptx(unit), TARGET)).collect();
        let bytes = objects.iter().map(|object| std::fs::read(object).expect("an object")).collect();
        programs.push((objects, bytes));
    }
    let mut random = Random::new(7);
    let target = TARGET.parse().expect("a GPU");
    let mut linked = 0;
    for _ in 0..count {
        let (objects, bytes) = &programs[random.below(programs.len())];
        let mut bytes = bytes.clone();
        let unit = random.below(bytes.len());
        mutate(&mut bytes[unit], &mut random);
        let inputs: Vec<Input<'_>> =
            objects.iter().zip(&bytes).map(|(object, data)| Input { file: path(object), data }).collect();
        match link(&inputs, target) {
            Ok(_) => linked += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    // Damage in code or data cannot be seen.
    assert!(linked > 0 && linked < count, "{linked} of {count}");
}
