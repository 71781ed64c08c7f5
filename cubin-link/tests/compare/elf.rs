//! A reader of finished cubins that shares no code with the linker.

use std::fmt::Write as _;

/// A section.
pub struct Section<'a> {
    pub name: &'a str,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    alignment: u64,
    entry_size: u64,
    data: &'a [u8],
}

struct Symbol<'a> {
    name: &'a str,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// A cubin.
pub struct Elf<'a> {
    data: &'a [u8],
    pub sections: Vec<Section<'a>>,
    symbols: Vec<Symbol<'a>>,
    strings: &'a [u8],
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?))
}

fn c_str(data: &[u8], at: usize) -> Option<&str> {
    let tail = data.get(at..)?;
    std::str::from_utf8(&tail[..tail.iter().position(|byte| *byte == 0)?]).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.chunks(16).map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n").collect()
}

impl<'a> Elf<'a> {
    pub fn read(data: &'a [u8]) -> Option<Self> {
        let table = u64_at(data, 40)? as usize;
        let (count, names) = (usize::from(u16_at(data, 60)?), usize::from(u16_at(data, 62)?));
        let names = u64_at(data, table + names * 64 + 24)? as usize;
        let mut sections = Vec::new();
        for header in (0..count).map(|number| table + number * 64) {
            let (kind, offset, size) =
                (u32_at(data, header + 4)?, u64_at(data, header + 24)?, u64_at(data, header + 32)?);
            let in_file = if matches!(kind, 0 | 8) { 0 } else { size };
            sections.push(Section {
                name: c_str(data, names + u32_at(data, header)? as usize)?,
                kind,
                flags: u64_at(data, header + 8)?,
                offset,
                size,
                link: u32_at(data, header + 40)?,
                info: u32_at(data, header + 44)?,
                alignment: u64_at(data, header + 48)?,
                entry_size: u64_at(data, header + 56)?,
                data: data.get(offset as usize..(offset + in_file) as usize)?,
            });
        }
        let strings = sections.iter().find(|section| section.name == ".strtab")?.data;
        let mut symbols = Vec::new();
        for raw in sections.iter().find(|section| section.name == ".symtab")?.data.chunks_exact(24) {
            symbols.push(Symbol {
                name: c_str(strings, u32_at(raw, 0)? as usize)?,
                info: raw[4],
                other: raw[5],
                section: u16_at(raw, 6)?,
                value: u64_at(raw, 8)?,
                size: u64_at(raw, 16)?,
            });
        }
        Some(Elf { data, sections, symbols, strings })
    }

    /// The name of a section, with a number if there are several.
    pub fn unique_name(&self, number: usize) -> String {
        let Some(section) = self.sections.get(number) else { return format!("#{number}") };
        let name = self.long_name(number);
        match self.sections[..number].iter().enumerate().filter(|(other, _)| self.long_name(*other) == name).count() {
            0 => name,
            before => format!("{name} ({})", before + usize::from(!section.name.is_empty())),
        }
    }

    /// Of a section about a local function, the function's own section disambiguates: static functions may have one name.
    fn long_name(&self, number: usize) -> String {
        self.sections[number].name.to_owned()
    }

    /// The name of a symbol, with a number if there are several.
    fn symbol_name(&self, number: u32) -> String {
        let Some(symbol) = self.symbols.get(number as usize) else { return format!("?{number}") };
        if symbol.info & 15 == 3 {
            return format!("section {}", self.unique_name(symbol.section.into()));
        }
        let before =
            self.symbols[..number as usize].iter().filter(|other| other.name == symbol.name && other.info & 15 != 3);
        match before.count() {
            0 => symbol.name.to_owned(),
            before => format!("{} ({})", symbol.name, before + 1),
        }
    }

    pub fn header(&self) -> String {
        let words = [16, 18].map(|at| u16_at(self.data, at).unwrap_or(0));
        format!(
            "{:?} {words:?} version {:?} entry {:?} flags {:x?}",
            &self.data[..16],
            u32_at(self.data, 20),
            u64_at(self.data, 24),
            u32_at(self.data, 48)
        )
    }

    /// What the header of a section says, but for its place.
    pub fn form(&self, number: usize) -> String {
        let section = &self.sections[number];
        let is_code = section.name.starts_with(".text.");
        let info = if is_code {
            format!("symbol {} and {:#x}", self.symbol_name(section.info & 0xff_ffff), section.info >> 24)
        } else {
            format!("section {}", self.unique_name(section.info as usize))
        };
        let link = self.unique_name(section.link as usize);
        let size = if section.name == ".note.nv.tkinfo" { 0 } else { section.size };
        let Section { kind, flags, alignment, entry_size, .. } = section;
        format!(
            "type {kind:#x} flags {flags:#x} size {size:#x} align {alignment} entry {entry_size}\nlink {link}\ninfo {info}"
        )
    }

    /// The content of a section with names for numbers, sorted where the order means nothing.
    pub fn content(&self, number: usize) -> Option<String> {
        let section = &self.sections[number];
        let name = section.name;
        match section.kind {
            4 => Some(self.relocations(section)),
            0x7000_0000 => Some(self.attributes(section)),
            0x7000_0001 => Some(self.calls(section)),
            0x7000_0002 => Some(self.prototypes(section)),
            _ if name == ".note.nv.tkinfo" => None,
            _ => Some(hex(section.data)),
        }
    }

    fn relocations(&self, section: &Section<'_>) -> String {
        let entry = |raw: &[u8]| {
            let (offset, kind) = (u64_at(raw, 0)?, u32_at(raw, 8)?);
            Some(format!("{offset:8x} type {kind} {} + {:#x}", self.symbol_name(u32_at(raw, 12)?), u64_at(raw, 16)?))
        };
        sorted(section.data.chunks_exact(24).filter_map(entry).collect())
    }

    fn attributes(&self, section: &Section<'_>) -> String {
        let mut lines = Vec::new();
        let mut rest = section.data;
        while let (Some(form), Some(attribute), Some(value)) = (rest.first(), rest.get(1), u16_at(rest, 2)) {
            let size = if *form == 4 { usize::from(value) } else { 0 };
            let Some(bytes) = rest.get(4..4 + size) else { break };
            let symbols = match attribute {
                0x11 | 0x12 | 0x23 | 0x2f | 0x0a if section.kind == 0x7000_0000 => 1,
                0x0f => size / 4,
                _ => 0,
            };
            let mut line = format!("{attribute:#04x} form {form}");
            // EXTERNS is a set; the order of the others means something, but they have one symbol.
            let mut names: Vec<String> =
                (0..symbols).map(|at| self.symbol_name(u32_at(bytes, at * 4).unwrap_or(u32::MAX))).collect();
            names.sort();
            let _ = write!(line, " {}", names.join(" "));
            if *form == 4 {
                let _ = write!(
                    line,
                    " {}",
                    bytes[(symbols * 4).min(size)..].iter().map(|b| format!("{b:02x}")).collect::<String>()
                );
            } else {
                let _ = write!(line, " {value:#x}");
            }
            lines.push(line);
            rest = &rest[4 + size..];
        }
        if !rest.is_empty() {
            lines.push(format!("and {} bytes", rest.len()));
        }
        sorted(lines)
    }

    fn calls(&self, section: &Section<'_>) -> String {
        let mut part = 0;
        let mut lines = Vec::new();
        for row in section.data.chunks_exact(8) {
            let (Some(first), Some(second)) = (u32_at(row, 0), u32_at(row, 4)) else { continue };
            if first == 0 {
                part = second.cast_signed();
                lines.push(format!("part {part}"));
                continue;
            }
            let second = if matches!(part, -2 | -3) {
                c_str(self.strings, second as usize).unwrap_or("?").to_owned()
            } else {
                self.symbol_name(second)
            };
            lines.push(format!("part {part}: {} -> {second}", self.symbol_name(first)));
        }
        sorted(lines)
    }

    fn prototypes(&self, section: &Section<'_>) -> String {
        let row = |row: &[u8]| {
            let text = c_str(self.strings, u32_at(row, 4)? as usize).unwrap_or("?");
            Some(format!("{} {text}", self.symbol_name(u32_at(row, 0)?)))
        };
        sorted(section.data.chunks_exact(8).filter_map(row).collect())
    }

    /// Each symbol by its name.
    pub fn symbol_facts(&self) -> Vec<(String, String)> {
        let fact = |number: usize| {
            let symbol = &self.symbols[number];
            let section =
                if symbol.section == 0 { "undefined".to_owned() } else { self.unique_name(symbol.section.into()) };
            let Symbol { info, other, value, size, .. } = symbol;
            let text = format!("info {info:#x} other {other:#x} in {section} at {value:#x} size {size:#x}");
            (self.symbol_name(number as u32), text)
        };
        (1..self.symbols.len()).map(fact).collect()
    }

    /// The program headers by the sections that they cover.
    pub fn segments(&self) -> String {
        let (table, count) = (u64_at(self.data, 32).unwrap_or(0) as usize, u16_at(self.data, 56).unwrap_or(0));
        let mut text = String::new();
        for header in (0..usize::from(count)).map(|number| table + number * 56) {
            let fields = [8, 32, 40].map(|at| u64_at(self.data, header + at).unwrap_or(0));
            let [offset, in_file, in_memory] = fields;
            let words = [0, 4].map(|at| u32_at(self.data, header + at).unwrap_or(0));
            let inside = self.sections.iter().filter(|section| {
                section.flags & 2 != 0
                    && offset <= section.offset
                    && section.offset + section.data.len() as u64 <= offset + in_file
            });
            let names: Vec<&str> = inside.map(|section| section.name).collect();
            let is_table = offset == table as u64;
            // The padding between sections depends on where tables in front of them end.
            let beyond = in_memory - in_file;
            let _ = writeln!(
                text,
                "{words:?} and {beyond:#x} beyond the file, table {is_table} {}",
                sorted(names.iter().map(|name| (*name).to_owned()).collect()).replace('\n', " ")
            );
        }
        text
    }
}

fn sorted(mut lines: Vec<String>) -> String {
    lines.sort();
    lines.join("\n")
}
