use object::write::{self, Relocation, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use proptest::prelude::*;

use super::*;

/// What a section of a test object refers to: a section by number, or a name by number.
type Edge = (bool, usize);

/// Writes an object with sections `.text.N` that refer to each other and to names, and whose own names are `sN`.
fn object(edges: &[Vec<Edge>], architecture: Architecture) -> Vec<u8> {
    let mut object = write::Object::new(BinaryFormat::Elf, architecture, object::Endianness::Little);
    let mut sections = Vec::new();
    for number in 0..edges.len() {
        let section = object.add_section(Vec::new(), format!(".text.{number}").into_bytes(), SectionKind::Text);
        object.append_section_data(section, &[0; 256], 1);
        let define = |name: Vec<u8>, scope| Symbol {
            name,
            value: 0,
            size: 0,
            kind: SymbolKind::Text,
            scope,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        };
        let scope = if number % 2 == 0 { SymbolScope::Dynamic } else { SymbolScope::Linkage };
        object.add_symbol(define(format!("s{number}").into_bytes(), scope));
        sections.push((section, object.section_symbol(section)));
    }
    for (number, edges) in edges.iter().enumerate() {
        for (place, (by_name, to)) in edges.iter().enumerate() {
            let symbol = if *by_name {
                let name = format!("name{to}@V1").into_bytes();
                object.symbol_id(&name).unwrap_or_else(|| {
                    object.add_symbol(Symbol {
                        name,
                        value: 0,
                        size: 0,
                        kind: SymbolKind::Text,
                        scope: SymbolScope::Unknown,
                        weak: false,
                        section: SymbolSection::Undefined,
                        flags: SymbolFlags::None,
                    })
                })
            } else {
                sections[*to].1
            };
            let flags = object::RelocationFlags::Generic {
                kind: object::RelocationKind::Absolute,
                encoding: object::RelocationEncoding::Generic,
                size: 64,
            };
            let relocation = Relocation { offset: place as u64 * 8, symbol, addend: 0, flags };
            object.add_relocation(sections[number].0, relocation).unwrap();
        }
    }
    object.write().unwrap()
}

fn node<'g>(graph: &'g SectionGraph<'_>, name: &str) -> (usize, &'g SectionNode<'g>) {
    let found = graph.sections.iter().enumerate().find(|(_, node)| node.name == name.as_bytes());
    found.unwrap_or_else(|| panic!("no section {name}"))
}

proptest! {
    #[test]
    fn every_reference_that_is_written_is_read(
        edges in proptest::collection::vec(proptest::collection::vec((any::<bool>(), 0..6_usize), 0..20), 6),
        is_arm in any::<bool>(),
    ) {
        let bytes = object(&edges, if is_arm { Architecture::Aarch64 } else { Architecture::X86_64 });
        let graph = section_graph(&bytes).unwrap();
        for (number, edges) in edges.iter().enumerate() {
            let (_, found) = node(&graph, &format!(".text.{number}"));
            let names: Vec<String> = edges.iter().map(|(_, to)| format!("name{to}")).collect();
            let mut expected: Vec<Reference<'_>> = edges.iter().zip(&names).map(|((by_name, to), name)| match by_name {
                true => Reference::Symbol(name.as_bytes()),
                false => Reference::Section(node(&graph, &format!(".text.{to}")).0),
            }).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(&found.references, &expected);
            prop_assert!(found.is_loaded && !found.is_root);
            let name = format!("s{number}");
            let definition = graph.definitions.iter().find(|one| one.name == name.as_bytes()).unwrap();
            prop_assert_eq!(definition.section, node(&graph, &format!(".text.{number}")).0);
            prop_assert_eq!(definition.is_exportable, number % 2 == 0);
        }
    }

    #[test]
    fn damaged_objects_are_answered(at in 0..2000_usize, byte in any::<u8>(), end in 0..4000_usize) {
        let mut bytes = object(&[vec![(false, 1), (true, 0)], vec![(false, 0)]], Architecture::X86_64);
        let place = at % bytes.len();
        bytes[place] = byte;
        let _ = section_graph(&bytes);
        let _ = section_graph(&bytes[..end.min(bytes.len())]);
    }
}

#[test]
fn roots_and_code_that_is_generated_later() {
    let with = |name: &str, kind, flags: Option<SectionFlags>| {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, object::Endianness::Little);
        object.section_id(StandardSection::Text);
        let section = object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
        object.append_section_data(section, &[0; 8], 8);
        if let Some(flags) = flags {
            object.section_mut(section).flags = flags;
        }
        object.write().unwrap()
    };
    for (name, is_root) in [(".init_array.101", true), (".ctors", true), (".data.rel", false), ("table", false)] {
        let bytes = with(name, SectionKind::Data, None);
        assert_eq!(node(&section_graph(&bytes).unwrap(), name).1.is_root, is_root, "{name}");
    }
    for lto in [".gnu.lto_main", ".llvm.lto"] {
        let error = section_graph(&with(lto, SectionKind::Other, None)).unwrap_err();
        assert!(error.to_string().contains("-flto"), "{error}");
    }
    assert!(section_graph(b"text").is_err());
    let other = write::Object::new(BinaryFormat::Elf, Architecture::Riscv64, object::Endianness::Little);
    assert!(section_graph(&other.write().unwrap()).is_err());
}

#[test]
fn entries_name_their_handles() {
    let bytes = crate::samples::host_object(&[]);
    // The sample's entries have names and no addresses.
    let graph = section_graph(&bytes).unwrap();
    let handles: Vec<_> = graph.handles.iter().map(|one| (one.entry.name.as_str(), one.handle)).collect();
    assert_eq!(handles, [("first", None), ("counter", None)]);
}

#[test]
fn exceptions_belong_to_their_function() {
    // One CIE of 8 bytes, and an FDE that refers to a function and to its exception table.
    let mut table = Vec::new();
    for number in [8_u32, 0, 0, 20, 16, 0, 0, 0, 0, 0] {
        table.extend(number.to_le_bytes());
    }
    let mut object = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, object::Endianness::Little);
    let mut section = |name: &str, kind, data: &[u8]| {
        let section = object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
        object.append_section_data(section, data, 8);
        (section, object.section_symbol(section))
    };
    let function = section(".text.f", SectionKind::Text, &[0; 8]);
    let exceptions = section(".gcc_except_table", SectionKind::ReadOnlyData, &[0; 8]);
    let frames = section(".eh_frame", SectionKind::ReadOnlyData, &table);
    for (offset, symbol) in [(20, function.1), (28, exceptions.1)] {
        let flags = object::RelocationFlags::Generic {
            kind: object::RelocationKind::Relative,
            encoding: object::RelocationEncoding::Generic,
            size: 32,
        };
        object.add_relocation(frames.0, Relocation { offset, symbol, addend: 0, flags }).unwrap();
    }
    let bytes = object.write().unwrap();
    let graph = section_graph(&bytes).unwrap();
    let (exceptions, _) = node(&graph, ".gcc_except_table");
    assert_eq!(node(&graph, ".text.f").1.references, [Reference::Section(exceptions)]);
    assert!(node(&graph, ".eh_frame").1.references.is_empty());
    assert!(graph.references.is_empty());
}

#[test]
fn compilers_name_sections_after_what_fills_them() {
    // The section, its symbols with value and size, and whether users gave it the name. Each section has 8 bytes.
    type Case = (&'static str, &'static [(&'static str, u64, u64)], bool);
    let cases: &[Case] = &[
        (".data.drv", &[("drv", 0, 8)], false),
        (".data.drv", &[("first", 0, 8)], true),
        (".data.drv", &[("drv", 0, 4), ("next", 4, 4)], true),
        (".data.rel.ro.local.drv", &[("drv", 0, 8)], false),
        (".data.rel.ro.drv", &[], false),
        (".text.unlikely._Z1fv", &[("_Z1fv.cold", 0, 8)], false),
        (".text._ZN1AC2Ev", &[("_ZN1AC2Ev", 0, 8), ("_ZN1AC1Ev", 0, 8)], false),
        (".text.entry", &[("a", 0, 4), ("b", 4, 4)], true),
        (".rodata.f", &[], false),
        (".data", &[("first", 0, 8)], false),
        (".text.startup", &[("main", 0, 4), ("init", 4, 4)], false),
        (".gcc_except_table._Z1fv", &[("GCC_except_table0", 0, 8)], false),
        (".datasets", &[], true),
        ("drv", &[("drv", 0, 8)], true),
    ];
    for (section, symbols, expected) in cases {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, object::Endianness::Little);
        let id = object.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Data);
        object.append_section_data(id, &[0; 8], 8);
        object.section_symbol(id);
        for (name, value, size) in *symbols {
            object.add_symbol(Symbol {
                name: name.as_bytes().to_vec(),
                value: *value,
                size: *size,
                kind: SymbolKind::Data,
                scope: SymbolScope::Compilation,
                weak: false,
                section: SymbolSection::Section(id),
                flags: SymbolFlags::None,
            });
        }
        let bytes = object.write().unwrap();
        let graph = section_graph(&bytes).unwrap();
        assert_eq!(node(&graph, section).1.has_own_name, *expected, "{section} {symbols:?}");
    }
}

#[test]
fn definitions_tell_whether_they_have_a_version() {
    let mut object = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, object::Endianness::Little);
    let section = object.section_id(StandardSection::Text);
    for name in ["launch@@V1", "launch_now"] {
        object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value: 0,
            size: 0,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    let bytes = object.write().unwrap();
    let definitions = section_graph(&bytes).unwrap().definitions;
    let found: Vec<_> = definitions.iter().map(|one| (String::from_utf8_lossy(one.name), one.has_version)).collect();
    assert_eq!(found, [("launch".into(), true), ("launch_now".into(), false)]);
}
