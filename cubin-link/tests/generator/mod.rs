//! Generates device programs of several units as PTX, each from a number.
//!
//! A program has functions and kernels that call each other by name and through pointers, across units, and use variables of every memory. The
//! same names are static in several units, or weak and defined several times, with the same or with other code.
#![allow(dead_code)]

mod code;

use std::fmt::Write as _;

use code::body;

/// Numbers that look random and are the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    /// Less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        // xorshift64*, Vigna 2016.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// Who sees something, and how often it is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    Visible,
    Weak,
    Static,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Global,
    Constant,
    Shared,
}

/// A variable of a module.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    pub memory: Memory,
    pub linkage: Linkage,
    pub size: usize,
    pub alignment: usize,
    /// Of a variable of 8 bytes an element: the functions and variables whose addresses it has.
    pub addresses: Vec<String>,
    pub zero: bool,
    /// The units that define it.
    pub units: Vec<usize>,
}

/// A function or a kernel.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: String,
    pub kernel: bool,
    pub linkage: Linkage,
    /// Number of parameters of 4 bytes: the prototype.
    pub parameters: usize,
    pub units: Vec<usize>,
    /// Whether its definitions differ in their registers.
    pub varies: bool,
    /// For its code.
    pub seed: u64,
    /// Where it is among the functions: it calls those behind it.
    pub place: usize,
}

/// What a program may have.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    pub shared: bool,
    pub pointers: bool,
    pub recursion: bool,
    pub system: bool,
    pub weak: bool,
    /// Kernels end, and their results are the same in every run by one thread.
    pub runs: bool,
}

impl Features {
    pub const ALL: Features =
        Features { shared: true, pointers: true, recursion: true, system: true, weak: true, runs: false };
    /// What a GPU can run.
    pub const RUN: Features = Features { recursion: false, runs: true, ..Features::ALL };
}

/// A program.
pub struct Program {
    pub target: String,
    pub features: Features,
    pub units: usize,
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
    pub dynamic: bool,
}

impl Program {
    /// The program of a number.
    pub fn new(seed: u64, target: &str, features: Features) -> Self {
        let mut random = Random::new(seed);
        let units = 2 + random.below(4);
        let mut program = Program {
            target: target.to_owned(),
            features,
            units,
            variables: Vec::new(),
            functions: Vec::new(),
            dynamic: features.shared && random.percent(40),
        };
        for number in 0..2 + random.below(10) {
            let variable = program.variable(&mut random, number);
            program.variables.push(variable);
        }
        for number in 0..3 + random.below(10) {
            let function = program.function(&mut random, number);
            program.functions.push(function);
        }
        if features.pointers && random.percent(60) {
            program.tables(&mut random);
        }
        program
    }

    fn places(&self, random: &mut Random, linkage: Linkage) -> Vec<usize> {
        let mut units: Vec<usize> = match linkage {
            Linkage::Visible => vec![random.below(self.units)],
            _ => (0..self.units).filter(|_| random.percent(60)).collect(),
        };
        if units.is_empty() {
            units.push(random.below(self.units));
        }
        units
    }

    fn linkage(&self, random: &mut Random) -> Linkage {
        match random.below(10) {
            0..=4 => Linkage::Visible,
            5..=7 if self.features.weak => Linkage::Weak,
            _ => Linkage::Static,
        }
    }

    fn variable(&self, random: &mut Random, number: usize) -> Variable {
        let memory = match random.below(10) {
            0..=3 => Memory::Global,
            4..=6 => Memory::Constant,
            _ if self.features.shared => Memory::Shared,
            _ => Memory::Global,
        };
        // Shared variables of one name in several modules are one variable only if they are weak.
        let linkage = if memory == Memory::Shared { Linkage::Static } else { self.linkage(random) };
        let alignment = *random.pick(&[4, 4, 8, 16]);
        let size = 4 * (1 + random.below(30));
        let units = self.places(random, linkage);
        Variable {
            name: format!("v{number}"),
            memory,
            linkage,
            size,
            alignment,
            addresses: Vec::new(),
            zero: random.percent(40),
            units,
        }
    }

    fn function(&self, random: &mut Random, place: usize) -> Function {
        let kernel = place < 2 || random.percent(30);
        let linkage = self.linkage(random);
        let linkage = if kernel && linkage == Linkage::Static { Linkage::Visible } else { linkage };
        let units = self.places(random, linkage);
        Function {
            name: format!("{}{place}", if kernel { "k" } else { "f" }),
            kernel,
            linkage,
            parameters: if kernel { 1 } else { 1 + random.below(3) },
            units,
            varies: random.percent(25),
            seed: random.below(1 << 30) as u64,
            place,
        }
    }

    /// Variables with the addresses of functions and variables.
    fn tables(&mut self, random: &mut Random) {
        for number in 0..1 + random.below(3) {
            let unit = random.below(self.units);
            let names: Vec<String> =
                (self.functions.iter().filter(|function| !function.kernel && self.sees(function, unit)))
                    .map(|function| function.name.clone())
                    .chain(
                        self.variables
                            .iter()
                            .filter(|v| v.memory == Memory::Global && v.linkage == Linkage::Visible)
                            .map(|v| format!("generic({})", v.name)),
                    )
                    .collect();
            if names.is_empty() {
                continue;
            }
            let count = 1 + random.below(5);
            self.variables.push(Variable {
                name: format!("t{number}"),
                memory: if random.percent(30) { Memory::Constant } else { Memory::Global },
                linkage: Linkage::Visible,
                size: 8 * count,
                alignment: 8,
                addresses: (0..count).map(|_| random.pick(&names).clone()).collect(),
                zero: false,
                units: vec![unit],
            });
        }
    }

    /// Whether code of a unit can name a function.
    pub fn sees(&self, function: &Function, unit: usize) -> bool {
        function.linkage != Linkage::Static || function.units.contains(&unit)
    }

    /// The PTX of a unit.
    pub fn ptx(&self, unit: usize) -> String {
        let mut text = format!(".version 8.8\n.target {}\n.address_size 64\n", self.target);
        text.push_str(".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n");
        text.push_str(".extern .func (.param .b64 r) malloc (.param .b64 a);\n.extern .func free (.param .b64 a);\n");
        if self.features.runs {
            text.push_str(".global .align 8 .b8 scratch[1024];\n.global .align 1 .b8 format[2] = {120, 0};\n");
        }
        if self.dynamic {
            text.push_str(".extern .shared .align 16 .b8 dynamic[];\n");
        }
        let defined: Vec<&Function> = self.functions.iter().filter(|function| function.units.contains(&unit)).collect();
        let bodies: Vec<String> = defined.iter().map(|function| body(self, function, unit)).collect();
        let all = bodies.concat()
            + &self
                .variables
                .iter()
                .filter(|v| v.units.contains(&unit))
                .flat_map(|v| v.addresses.clone())
                .collect::<Vec<_>>()
                .join(" ");
        for function in self.functions.iter().filter(|function| !function.kernel && self.sees(function, unit)) {
            if function.units.contains(&unit) || mentions(&all, &function.name) {
                let _ = writeln!(text, "{};", head(function, unit, function.units.contains(&unit)));
            }
        }
        // A variable whose address another one has comes first.
        let (tables, others): (Vec<_>, Vec<_>) =
            self.variables.iter().partition(|variable| !variable.addresses.is_empty());
        for variable in others.into_iter().chain(tables) {
            declare(&mut text, variable, unit, mentions(&all, &variable.name));
        }
        for (function, body) in defined.into_iter().zip(bodies) {
            let _ = writeln!(text, "{}\n{{\n{body}}}", head(function, unit, true));
        }
        text
    }
}

fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
}

fn head(function: &Function, unit: usize, defined: bool) -> String {
    let linkage = match function.linkage {
        _ if !defined => ".extern ",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Static => "",
    };
    let _ = unit;
    let name = &function.name;
    if function.kernel {
        let bounds = if function.seed.is_multiple_of(5) { " .maxntid 128, 1, 1 .minnctapersm 2" } else { "" };
        return format!("{linkage}.entry {name}(.param .u64 out){bounds}");
    }
    let parameters: Vec<String> = (0..function.parameters).map(|number| format!(".param .b32 p{number}")).collect();
    format!("{linkage}.func (.param .b32 r) {name} ({})", parameters.join(", "))
}

fn declare(text: &mut String, variable: &Variable, unit: usize, used: bool) {
    let Variable { name, memory, linkage, size, alignment, addresses, zero, units } = variable;
    let space = match memory {
        Memory::Global => ".global",
        Memory::Constant => ".const",
        Memory::Shared => ".shared",
    };
    let element = if addresses.is_empty() { ".b8" } else { ".u64" };
    let count = if addresses.is_empty() { *size } else { size / 8 };
    if !units.contains(&unit) {
        if used && *linkage != Linkage::Static {
            let _ = writeln!(text, ".extern {space} .align {alignment} {element} {name}[{count}];");
        }
        return;
    }
    let linkage = match linkage {
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Static => "",
    };
    let value = if !addresses.is_empty() {
        format!(" = {{{}}}", addresses.join(", "))
    } else if *zero || *memory == Memory::Shared {
        String::new()
    } else {
        let bytes: Vec<String> = (0..*size).map(|at| ((at * 7 + name.len()) % 251).to_string()).collect();
        format!(" = {{{}}}", bytes.join(", "))
    };
    let _ = writeln!(text, "{linkage}{space} .align {alignment} {element} {name}[{count}]{value};");
}
