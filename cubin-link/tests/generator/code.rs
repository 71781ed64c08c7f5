//! The code of a function of a generated program.

use std::fmt::Write as _;

use super::{Function, Linkage, Memory, Program, Random, Variable};

/// The statements between the braces.
pub fn body(program: &Program, function: &Function, unit: usize) -> String {
    let mut random = Random::new(function.seed);
    let mut code = Code { program, function, unit, text: String::new(), declared: String::new(), labels: 0 };
    code.start(&mut random);
    // Static functions of one name have other code in each unit.
    if function.linkage == Linkage::Static {
        random = Random::new(function.seed + unit as u64);
    }
    for _ in 0..1 + random.below(6) {
        code.statement(&mut random);
    }
    if function.varies {
        code.pressure(8 + 8 * ((function.seed as usize + unit) % 3));
    }
    code.end()
}

struct Code<'p> {
    program: &'p Program,
    function: &'p Function,
    unit: usize,
    text: String,
    /// Variables of the function itself.
    declared: String,
    labels: usize,
}

impl Code<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn start(&mut self, random: &mut Random) {
        if self.function.kernel {
            self.line("ld.param.u64 %rd1, [out]; ld.volatile.global.u32 %r1, [%rd1];");
        } else {
            self.line("ld.param.b32 %r1, [p0];");
            for number in 1..self.function.parameters {
                self.line(&format!("ld.param.b32 %r2, [p{number}]; add.s32 %r1, %r1, %r2;"));
            }
        }
        if random.percent(30) {
            let size = 8 * (1 + random.below(20));
            let _ = writeln!(self.declared, ".local .align 8 .b8 frame[{size}];");
            self.line(&format!(
                "rem.u32 %r2, %r1, {}; cvt.u64.u32 %rd2, %r2; mov.u64 %rd3, frame; add.s64 %rd2, %rd2, %rd3;",
                size - 4
            ));
            if self.program.features.runs {
                self.line("mov.u32 %r3, 0; st.local.u32 [frame], %r3;");
            }
            self.line(
                "and.b64 %rd2, %rd2, -4; st.local.u32 [%rd2], %r1; ld.local.u32 %r3, [frame]; add.s32 %r1, %r1, %r3;",
            );
        }
        if self.program.features.shared && self.function.kernel {
            for number in 0..random.below(4) {
                let (size, alignment) = (4 * (1 + random.below(20)), *random.pick(&[4, 4, 8, 16]));
                let _ = writeln!(self.declared, ".shared .align {alignment} .b8 own{number}[{size}];");
                if self.program.features.runs {
                    self.line(&format!("mov.u32 %r2, 0; st.volatile.shared.u32 [own{number}], %r2;"));
                }
                self.line(&format!("st.volatile.shared.u32 [own{number}+{}], %r1; ld.volatile.shared.u32 %r2, [own{number}]; add.s32 %r1, %r1, %r2;", size - 4));
            }
        }
    }

    fn end(mut self) -> String {
        if self.function.kernel {
            self.line("st.volatile.global.u32 [%rd1], %r1; ret;");
        } else {
            self.line("st.param.b32 [r], %r1; ret;");
        }
        let registers = ".reg .b32 %r<80>; .reg .b64 %rd<20>; .reg .f64 %fd<8>; .reg .pred %p<8>;\n";
        [registers, &self.declared, &self.text].concat()
    }

    fn statement(&mut self, random: &mut Random) {
        match random.below(20) {
            0..=6 => self.variable(random),
            7..=12 => self.call(random),
            13 => self.line(&format!("bar.sync {};", random.below(6))),
            14 => self.division(random),
            15 if self.program.features.pointers => self.pointer_call(random),
            16 if self.program.features.system => self.system(random),
            17 if random.percent(if self.function.kernel { 60 } else { 5 }) => self.jump_table(),
            18 if self.program.dynamic => {
                self.line("st.volatile.shared.u32 [dynamic+8], %r1; mov.u32 %r2, dynamic; add.s32 %r1, %r1, %r2;");
            }
            _ => self.pressure(4 + random.below(24)),
        }
    }

    fn visible(&self) -> Vec<&Variable> {
        let program = self.program;
        let sees = |variable: &&Variable| {
            variable.units.contains(&self.unit)
                || variable.linkage != Linkage::Static && variable.memory != Memory::Shared
        };
        program.variables.iter().filter(sees).collect()
    }

    fn variable(&mut self, random: &mut Random) {
        // Where functions are, and so what a table of them holds, differs between two links; the results of kernels that run may not.
        let runs = self.program.features.runs;
        let visible: Vec<&Variable> = self.visible().into_iter().filter(|v| !runs || v.addresses.is_empty()).collect();
        if visible.is_empty() {
            return;
        }
        let variable = random.pick(&visible);
        let (name, last) = (variable.name.clone(), variable.size - 4);
        let at = 4 * random.below(last / 4 + 1);
        match variable.memory {
            Memory::Global => self.line(&format!("ld.volatile.global.u32 %r2, [{name}+{at}]; add.s32 %r1, %r1, %r2; st.volatile.global.u32 [{name}], %r1;")),
            Memory::Constant if random.percent(50) => {
                self.line(&format!("ld.const.u32 %r2, [{name}+{at}]; add.s32 %r1, %r1, %r2;"));
            }
            Memory::Constant => {
                self.line(&format!("rem.u32 %r2, %r1, {}; mul.wide.u32 %rd4, %r2, 4; mov.u64 %rd5, {name}; add.s64 %rd4, %rd4, %rd5;", last / 4 + 1));
                self.line("ld.const.u32 %r3, [%rd4]; add.s32 %r1, %r1, %r3;");
            }
            Memory::Shared => self.line(&format!("st.volatile.shared.u32 [{name}+{at}], %r1; mov.u32 %r2, {name}; add.s32 %r1, %r1, %r2;")),
        }
    }

    /// Functions that this one may call: those behind it, or any if there may be recursion.
    fn callees(&self, random: &mut Random) -> Vec<Function> {
        let any = self.program.features.recursion && random.percent(4);
        let may = |other: &&Function| {
            !other.kernel && (any || other.place > self.function.place) && self.program.sees(other, self.unit)
        };
        self.program.functions.iter().filter(may).cloned().collect()
    }

    fn call(&mut self, random: &mut Random) {
        let callees = self.callees(random);
        if callees.is_empty() {
            return;
        }
        let callee = random.pick(&callees);
        let target = format!("call.uni (b), {}, ({});", callee.name, arguments(callee.parameters));
        self.calls(callee.parameters, &target);
    }

    fn calls(&mut self, parameters: usize, target: &str) {
        let declared: String = (0..parameters).map(|number| format!(".param .b32 a{number}; ")).collect();
        let stores: String = (0..parameters).map(|number| format!("st.param.b32 [a{number}], %r1; ")).collect();
        self.line(&format!(
            "{{ {declared}.param .b32 b; {stores}{target} ld.param.b32 %r2, [b]; }} add.s32 %r1, %r1, %r2;"
        ));
    }

    fn pointer_call(&mut self, random: &mut Random) {
        let mut callees = self.callees(random);
        let parameters = 1 + random.below(3);
        let mut tables: Vec<&Variable> = self.visible().into_iter().filter(|v| !v.addresses.is_empty()).collect();
        if self.program.features.runs {
            callees.retain(|callee| callee.parameters == parameters);
            tables.retain(|table| self.may_call_first(table, parameters));
            if callees.is_empty() && tables.is_empty() {
                return;
            }
        }
        let tables: Vec<String> = tables.into_iter().map(|table| table.name.clone()).collect();
        self.labels += 1;
        let label = format!("prototype{}", self.labels);
        if (random.percent(40) || self.program.features.runs && callees.is_empty()) && !tables.is_empty() {
            let table = random.pick(&tables);
            let space = if self.program.variables.iter().any(|v| v.name == *table && v.memory == Memory::Constant) {
                "const"
            } else {
                "global"
            };
            self.line(&format!("ld.{space}.u64 %rd6, [{table}];"));
        } else if let Some(callee) = callees.get(random.below(callees.len().max(1))) {
            let other = random.pick(&callees).name.clone();
            let name = &callee.name;
            self.line(&format!(
                "setp.gt.s32 %p1, %r1, 5; mov.u64 %rd7, {name}; mov.u64 %rd8, {other}; selp.b64 %rd6, %rd7, %rd8, %p1;"
            ));
        } else {
            self.line("mov.b64 %rd6, {%r1, %r1};");
        }
        let declared: Vec<String> = (0..parameters).map(|_| ".param .b32 _".to_owned()).collect();
        self.line(&format!("{label}: .callprototype (.param .b32 _) _ ({});", declared.join(", ")));
        let target = format!("call (b), %rd6, ({}), {label};", arguments(parameters));
        self.calls(parameters, &target);
    }

    /// Whether the first address in a table is that of a function that ends, with as many parameters.
    fn may_call_first(&self, table: &Variable, parameters: usize) -> bool {
        let functions = &self.program.functions;
        let first = functions.iter().find(|function| !function.kernel && function.name == table.addresses[0]);
        first.is_some_and(|first| first.place > self.function.place && first.parameters == parameters)
    }

    fn division(&mut self, random: &mut Random) {
        if random.percent(50) {
            self.line("cvt.rn.f64.s32 %fd1, %r1; add.f64 %fd2, %fd1, 0d3FF8000000000000; div.rn.f64 %fd3, %fd1, %fd2; cvt.rzi.s32.f64 %r2, %fd3; add.s32 %r1, %r1, %r2;");
        } else {
            self.line("cvt.s64.s32 %rd9, %r1; add.s64 %rd10, %rd9, 77; mul.lo.s64 %rd11, %rd9, %rd10; div.s64 %rd9, %rd11, %rd10; cvt.u32.u64 %r2, %rd9; add.s32 %r1, %r1, %r2;");
        }
    }

    fn system(&mut self, random: &mut Random) {
        self.line("cvt.u64.u32 %rd12, %r1;");
        let runs = self.program.features.runs;
        if random.percent(50) {
            if runs {
                self.line("mov.u64 %rd12, format; cvta.global.u64 %rd12, %rd12; mov.u64 %rd15, 0;");
            }
            let arguments = if runs { "%rd15" } else { "%rd12" };
            self.line(&"{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd12; st.param.b64 [b], %rd12; call.uni (c), vprintf, (a, b); ld.param.b32 %r2, [c]; }".replace("[b], %rd12", &format!("[b], {arguments}")));
        } else {
            self.line("{ .param .b64 a; .param .b64 c; st.param.b64 [a], %rd12; call.uni (c), malloc, (a); ld.param.b64 %rd13, [c]; }");
            self.line("{ .param .b64 a; st.param.b64 [a], %rd13; call.uni free, (a); }");
        }
    }

    fn jump_table(&mut self) {
        self.labels += 1;
        let n = self.labels;
        self.line(&format!("and.b32 %r2, %r1, 3; T{n}: .branchtargets A{n}, B{n}, C{n}, D{n}; brx.idx %r2, T{n};"));
        self.line(&format!(
            "A{n}: bar.sync 1; add.s32 %r1, %r1, 10; bra E{n}; B{n}: mul.lo.s32 %r1, %r1, 77; bra D{n};"
        ));
        self.line(&format!("C{n}: xor.b32 %r1, %r1, 99; bar.warp.sync -1; bra E{n}; D{n}: add.s32 %r1, %r1, 3; E{n}:"));
    }

    /// Keeps `count` values alive over a barrier.
    fn pressure(&mut self, count: usize) {
        let base = if self.program.features.runs { "mov.u64 %rd14, scratch;" } else { "cvt.u64.u32 %rd14, %r1;" };
        self.line(base);
        for number in 0..count {
            self.line(&format!("ld.volatile.global.u32 %r{}, [%rd14+{}];", 10 + number, number * 4));
        }
        self.line("bar.sync 0;");
        for number in 0..count {
            self.line(&format!("st.volatile.global.u32 [%rd14+{}], %r{};", 512 + number * 4, 10 + number));
        }
    }
}

fn arguments(parameters: usize) -> String {
    let names: Vec<String> = (0..parameters).map(|number| format!("a{number}")).collect();
    names.join(", ")
}
