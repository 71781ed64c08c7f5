//! tmp
fn main() {
    for f in std::env::args().skip(1) {
        let d = std::fs::read(&f).unwrap();
        match offload_bundle::cubin::parse(&d) {
            Ok(c) => {
                println!("{f}: rel={} arch={} abi={} fin={} dbg={} tk={:?} 64={} compat={:02x?}", c.is_relocatable(), c.arch(), c.abi_version(), c.finalizable(), c.has_debug_info(), c.toolkit(), c.is_64_bit(), c.nv_compat());
                println!("   kernels={:?}", c.kernels());
                for s in c.symbols() { println!("   {:?} def={} {:?} {:?}", s.name, s.defined, s.binding, s.kind); }
            }
            Err(e) => println!("{f}: {e}"),
        }
    }
}
