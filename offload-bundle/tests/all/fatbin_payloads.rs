//! The reader decompresses what NVIDIA's writers compress, whatever the algorithm.

use offload_bundle::cubin;
use offload_bundle::fatbin::{self, Compression, EntryKind, squeeze};

use crate::tools;

#[test]
fn every_algorithm_of_fatbinary() {
    let dir = tempfile::tempdir().expect("a folder");
    let ptx = tools::whole_ptx("8.0", "sm_90");
    let image = tools::ptxas(dir.path(), &ptx, "sm_90", &[]);
    let out = dir.path().join("x.fatbin");
    let algorithms = [
        (&["--compress=false"][..], Compression::None),
        (&["--compress-all", "--compress-algorithm=1"], Compression::Zlib),
        (&["--compress-all", "--compress-algorithm=2"], Compression::Lz4),
        (&["--compress-all", "--compress-algorithm=3"], Compression::Lz4Frame),
        (&["--compress-all", "--compress-algorithm=4"], Compression::Lz4),
        (&["--compress-all", "--compress-algorithm=5"], Compression::Zstd),
        (&["--compress-mode=speed", "--compress-all"], Compression::Lz4),
    ];
    let (cubin_file, ptx_file) = (dir.path().join("sample.cubin"), dir.path().join("sample.ptx"));
    for (flags, compression) in algorithms {
        let mut args: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        args.push("-64".to_owned());
        args.push(format!("--create={}", out.display()));
        args.push(format!("--image3=kind=elf,sm=90,file={}", cubin_file.display()));
        args.push(format!("--image3=kind=ptx,sm=90,file={}", ptx_file.display()));
        args.push("--ident=name.cu".to_owned());
        tools::run(&tools::cuda("fatbinary"), &args);
        let data = std::fs::read(&out).expect("fatbinary wrote a file");
        let entries = fatbin::read(&data).unwrap_or_else(|e| panic!("{flags:?}: {e}"));
        let kinds: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.compression)).collect();
        assert_eq!(kinds, [(EntryKind::Elf, compression), (EntryKind::Ptx, compression)], "{flags:?}");
        let payload = |index: usize| entries[index].payload().unwrap_or_else(|e| panic!("{flags:?}: {e}"));
        assert!(payload(0).starts_with(&image), "{flags:?}");
        assert!(cubin::parse(&payload(0)).is_ok(), "{flags:?}");
        let squeezed = squeeze(ptx.as_bytes());
        assert_eq!(*payload(1), squeezed[..squeezed.len() - 1], "{flags:?}");
        assert_eq!(entries[1].code_version, (8, 0));
        assert_eq!(entries[1].identifier, Some(&b"name.cu"[..]));
    }
}
