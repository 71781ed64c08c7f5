//! Whatever can be annotated is still a file of its kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::{annotate, host_object};

fuzz_target!(|data: &[u8]| {
    if let Ok(annotated) = annotate::annotate(data, "cuda-include-ptx", "all") {
        assert_eq!(host_object::file_kind(&annotated.bytes), host_object::file_kind(data));
        let again = annotate::annotate(&annotated.bytes, "cuda-include-ptx", "all").expect("annotated files can be annotated");
        assert_eq!(again.images, annotated.images);
    }
});
