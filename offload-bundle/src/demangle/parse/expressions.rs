//! Expressions, in template arguments, `decltype` and constraints.

use super::super::tree::{Id, Kind, Piece, Precedence};
use super::Parser;
use super::operators::{Class, Operator};

/// An operand that needs parentheses unless it is stronger than this.
fn strong(node: Id, than: Precedence) -> Piece<'static> {
    Piece::Operand { node, than, equal: false }
}

/// An operand that needs parentheses if it is weaker than this.
fn as_strong(node: Id, than: Precedence) -> Piece<'static> {
    Piece::Operand { node, than, equal: true }
}

/// `::` in front of what is global.
fn scope(is_global: bool) -> Piece<'static> {
    Piece::Text(if is_global { b"::" } else { b"" })
}

impl<'n> Parser<'n> {
    /// `<expression>`
    pub(super) fn expression(&mut self) -> Option<Id> {
        self.nested(|parser| {
            let is_global = parser.eat(b"gs");
            match parser.operator() {
                Some(operator) => parser.operation(operator, is_global),
                None => parser.other_expression(is_global),
            }
        })
    }

    fn operation(&mut self, operator: &'static Operator, is_global: bool) -> Option<Id> {
        let (symbol, own) = (operator.symbol(), operator.precedence);
        match operator.class {
            Class::Binary => {
                let left = self.expression()?;
                let right = self.expression()?;
                Some(self.tree.expression(Kind::Infix { left, operator: symbol, right }, own))
            }
            Class::Postfix if !self.eat(b"_") => {
                let operand = self.expression()?;
                Some(self.add_expression([as_strong(operand, own), Piece::Text(symbol)], own))
            }
            Class::Prefix | Class::Postfix => {
                let operand = self.expression()?;
                Some(self.add_expression([Piece::Text(symbol), strong(operand, own)], own))
            }
            Class::Subscript => self.subscript(own),
            Class::Member { .. } => {
                let object = self.expression()?;
                let member = self.expression()?;
                Some(self.add_expression([as_strong(object, own), Piece::Text(symbol), strong(member, own)], own))
            }
            Class::New { is_array } => self.new_expression(is_global, is_array, own),
            Class::Delete { is_array } => self.delete_expression(is_global, is_array, own),
            Class::Call { in_parentheses } => {
                let callee = self.expression()?;
                let arguments = self.until(b"E", Self::expression)?;
                Some(self.call(callee, arguments, in_parentheses))
            }
            Class::Conversion => self.conversion(own),
            Class::Conditional => self.conditional(own),
            Class::NamedCast => self.named_cast(symbol, own),
            Class::Query { of_type } => {
                let operand = if of_type { self.ty()? } else { self.expression()? };
                Some(self.enclosed(symbol, operand, own))
            }
            Class::Name => None,
        }
    }

    fn subscript(&mut self, precedence: Precedence) -> Option<Id> {
        let array = self.expression()?;
        let index = self.expression()?;
        let pieces = [strong(array, precedence), Piece::Open(b'['), Piece::Node(index), Piece::Close(b']')];
        Some(self.add_expression(pieces, precedence))
    }

    fn delete_expression(&mut self, is_global: bool, is_array: bool, precedence: Precedence) -> Option<Id> {
        let object = self.expression()?;
        let word: &[u8] = if is_array { b"delete[] " } else { b"delete " };
        Some(self.add_expression([scope(is_global), Piece::Text(word), Piece::Node(object)], precedence))
    }

    fn conditional(&mut self, precedence: Precedence) -> Option<Id> {
        let condition = self.expression()?;
        let then = self.expression()?;
        let otherwise = self.expression()?;
        let pieces = [
            strong(condition, precedence),
            Piece::Text(b" ? "),
            Piece::Node(then),
            Piece::Text(b" : "),
            as_strong(otherwise, Precedence::Assign),
        ];
        Some(self.add_expression(pieces, precedence))
    }

    fn named_cast(&mut self, keyword: &'static [u8], precedence: Precedence) -> Option<Id> {
        let ty = self.ty()?;
        let value = self.expression()?;
        let (open, close) = (Piece::Open(b'('), Piece::Close(b')'));
        let pieces = [Piece::Text(keyword), Piece::CastTarget(ty), open, Piece::Node(value), close];
        Some(self.add_expression(pieces, precedence))
    }

    pub(super) fn enclosed(&mut self, word: &'n [u8], inner: Id, precedence: Precedence) -> Id {
        let pieces = [Piece::Text(word), Piece::Open(b'('), Piece::Node(inner), Piece::Close(b')')];
        self.add_expression(pieces, precedence)
    }

    fn call(&mut self, callee: Id, arguments: Box<[Id]>, in_parentheses: bool) -> Id {
        let mut pieces = vec![Piece::Node(callee)];
        if in_parentheses {
            pieces = vec![Piece::Open(b'('), Piece::Node(callee), Piece::Close(b')')];
        }
        pieces.extend([Piece::Open(b'('), Piece::List(arguments), Piece::Close(b')')]);
        self.tree.expression(Kind::Pieces(pieces), Precedence::Postfix)
    }

    /// `nw <expression>* _ <type> [pi <expression>*] E`
    fn new_expression(&mut self, is_global: bool, is_array: bool, precedence: Precedence) -> Option<Id> {
        let placement = self.until(b"_", Self::expression)?;
        let ty = self.ty()?;
        let initializers = if self.eat(b"pi") {
            self.until(b"E", Self::expression)?
        } else {
            self.expect(b"E")?;
            Box::default()
        };
        let word: &[u8] = if is_array { b"new[]" } else { b"new" };
        let mut pieces = vec![scope(is_global), Piece::Text(word)];
        let in_parentheses = |pieces: &mut Vec<Piece<'n>>, list: Box<[Id]>| {
            if !list.is_empty() {
                pieces.extend([Piece::Open(b'('), Piece::List(list), Piece::Close(b')')]);
            }
        };
        in_parentheses(&mut pieces, placement);
        pieces.extend([Piece::Text(b" "), Piece::Node(ty)]);
        in_parentheses(&mut pieces, initializers);
        Some(self.tree.expression(Kind::Pieces(pieces), precedence))
    }

    /// `cv <type> (<expression> | _ <expression>* E)`
    fn conversion(&mut self, precedence: Precedence) -> Option<Id> {
        let takes_arguments = std::mem::replace(&mut self.takes_arguments, false);
        let ty = self.ty()?;
        self.takes_arguments = takes_arguments;
        let values = if self.eat(b"_") {
            self.until(b"E", Self::expression)?
        } else if self.eat(b"E") {
            return None;
        } else {
            Box::new([self.expression()?])
        };
        let (open, close) = (|| Piece::Open(b'('), || Piece::Close(b')'));
        let pieces = [open(), Piece::Node(ty), close(), open(), Piece::List(values), close()];
        Some(self.add_expression(pieces, precedence))
    }

    fn other_expression(&mut self, is_global: bool) -> Option<Id> {
        match (self.peek(0), self.peek(1)) {
            (_, 0) => None,
            (b'L', _) => self.literal(),
            (b'T', _) => self.template_parameter(),
            (b'f', b'p') => self.function_parameter(),
            (b'f', b'L') if self.peek(2).is_ascii_digit() => self.function_parameter(),
            (b'f', _) => self.fold(),
            (b'r', b'q' | b'Q') => self.requires(),
            (b'u', _) => self.vendor_call(),
            (first, second) => match self.with_code([first, second]) {
                Some(read) => {
                    self.skip(2);
                    read(self)
                }
                None => self.unresolved_name(is_global),
            },
        }
    }

    /// What reads the expression behind this code.
    fn with_code(&self, code: [u8; 2]) -> Option<fn(&mut Self) -> Option<Id>> {
        Some(match &code {
            b"il" => |parser| {
                let items = parser.until(b"E", Self::initializer)?;
                Some(parser.tree.add(Kind::Initializers { ty: None, items }))
            },
            b"tl" => |parser| {
                let ty = parser.ty()?;
                let items = parser.until(b"E", Self::initializer)?;
                Some(parser.tree.add(Kind::Initializers { ty: Some(ty), items }))
            },
            b"mc" => Self::member_pointer_conversion,
            b"nx" => |parser| {
                let operand = parser.expression()?;
                Some(parser.enclosed(b"noexcept ", operand, Precedence::Unary))
            },
            b"so" => Self::subobject,
            b"sp" => |parser| {
                let pattern = parser.expression()?;
                Some(parser.tree.add(Kind::Expansion(pattern)))
            },
            b"sZ" => Self::count_of_pack,
            b"sP" => |parser| {
                let arguments = parser.until(b"E", Self::template_argument)?;
                let list = parser.tree.pieces([Piece::List(arguments)]);
                Some(parser.enclosed(b"sizeof... ", list, Precedence::Primary))
            },
            b"tr" => |parser| Some(parser.tree.name(b"throw")),
            b"tw" => |parser| {
                let value = parser.expression()?;
                Some(parser.tree.pieces([Piece::Text(b"throw "), Piece::Node(value)]))
            },
            _ => return None,
        })
    }

    /// `mc <type> <expression> [<number>] E`
    fn member_pointer_conversion(&mut self) -> Option<Id> {
        let ty = self.ty()?;
        let value = self.expression()?;
        self.number(true);
        self.expect(b"E")?;
        let (open, close) = (|| Piece::Open(b'('), || Piece::Close(b')'));
        let pieces = [open(), Piece::Node(ty), close(), open(), Piece::Node(value), close()];
        Some(self.add_expression(pieces, Precedence::Unary))
    }

    /// `sZ (<template-param> | <function-param>)`
    fn count_of_pack(&mut self) -> Option<Id> {
        if self.peek(0) != b'T' {
            let parameter = self.function_parameter()?;
            return Some(self.enclosed(b"sizeof... ", parameter, Precedence::Primary));
        }
        let pack = self.template_parameter()?;
        let pieces = [Piece::Text(b"sizeof..."), Piece::Open(b'('), Piece::Expansion(pack), Piece::Close(b')')];
        Some(self.tree.pieces(pieces))
    }

    /// `<braced-expression>`
    fn initializer(&mut self) -> Option<Id> {
        let designator = match (self.peek(0), self.peek(1)) {
            (b'd', b'i') => {
                self.skip(2);
                vec![Piece::Text(b"."), Piece::Node(self.source_name()?)]
            }
            (b'd', b'x') => {
                self.skip(2);
                vec![Piece::Text(b"["), Piece::Node(self.expression()?), Piece::Text(b"]")]
            }
            (b'd', b'X') => {
                self.skip(2);
                let first = self.expression()?;
                let last = self.expression()?;
                let range = [Piece::Text(b"["), Piece::Node(first), Piece::Text(b" ... "), Piece::Node(last)];
                range.into_iter().chain([Piece::Text(b"]")]).collect()
            }
            _ => return self.expression(),
        };
        let value = self.nested(Self::initializer)?;
        // Designators of nested members follow each other.
        let is_nested = matches!(self.tree.kind(value), Kind::Designated(_));
        let equals: &[u8] = if is_nested { b"" } else { b" = " };
        let pieces = designator.into_iter().chain([Piece::Text(equals), Piece::Node(value)]).collect();
        Some(self.tree.add(Kind::Designated(pieces)))
    }

    /// `fl | fr, <operator> <expression>`, `fL | fR, <operator> <expression> <expression>`
    fn fold(&mut self) -> Option<Id> {
        let (is_left, has_start) = match self.peek(1) {
            b'L' => (true, true),
            b'R' => (false, true),
            b'l' => (true, false),
            b'r' => (false, false),
            _ => return None,
        };
        self.skip(2);
        let operator = self.operator().filter(|operator| operator.can_fold())?;
        let first = self.expression()?;
        let second = if has_start { Some(self.expression()?) } else { None };
        let symbol = || [Piece::Text(b" "), Piece::Text(operator.symbol()), Piece::Text(b" ")];
        let pack = |pack| vec![Piece::Open(b'('), Piece::Expansion(pack), Piece::Close(b')')];
        let start = |start| vec![as_strong(start, Precedence::Cast)];
        let (before, after) = match (is_left, second) {
            (true, None) => (None, Some(pack(first))),
            (true, Some(second)) => (Some(start(first)), Some(pack(second))),
            (false, None) => (Some(pack(first)), None),
            (false, Some(second)) => (Some(pack(first)), Some(start(second))),
        };
        let mut pieces = vec![Piece::Open(b'(')];
        pieces.extend(before.into_iter().flat_map(|before| before.into_iter().chain(symbol())));
        pieces.push(Piece::Text(b"..."));
        pieces.extend(after.into_iter().flat_map(|after| symbol().into_iter().chain(after)));
        pieces.push(Piece::Close(b')'));
        Some(self.tree.add(Kind::Pieces(pieces)))
    }

    /// `rq <requirement>+ E`, `rQ <type>+ _ <requirement>+ E`
    fn requires(&mut self) -> Option<Id> {
        let has_parameters = self.peek(1) == b'Q';
        self.skip(2);
        let mut pieces = vec![Piece::Text(b"requires")];
        if has_parameters {
            let parameters = self.until(b"_", Self::ty)?;
            if !parameters.is_empty() {
                let list = [Piece::Open(b'('), Piece::List(parameters), Piece::Close(b')')];
                pieces.extend(std::iter::once(Piece::Text(b" ")).chain(list));
            }
        }
        pieces.extend([Piece::Text(b" "), Piece::Open(b'{')]);
        loop {
            self.requirement(&mut pieces)?;
            if self.eat(b"E") {
                break;
            }
        }
        pieces.extend([Piece::Text(b" "), Piece::Close(b'}')]);
        Some(self.tree.add(Kind::Pieces(pieces)))
    }

    /// `X <expression> [N] [R <name>] | T <type> | Q <expression>`
    fn requirement(&mut self, pieces: &mut Vec<Piece<'n>>) -> Option<()> {
        if self.eat(b"T") {
            pieces.extend([Piece::Text(b" typename "), Piece::Node(self.ty()?)]);
        } else if self.eat(b"Q") {
            pieces.extend([Piece::Text(b" requires "), Piece::Node(self.expression()?)]);
        } else {
            self.expect(b"X")?;
            let expression = Piece::Node(self.expression()?);
            let is_noexcept = self.eat(b"N");
            let constraint = if self.eat(b"R") { Some(self.name()?) } else { None };
            pieces.push(Piece::Text(b" "));
            if is_noexcept || constraint.is_some() {
                pieces.extend([Piece::Open(b'{'), expression, Piece::Close(b'}')]);
            } else {
                pieces.push(expression);
            }
            if is_noexcept {
                pieces.push(Piece::Text(b" noexcept"));
            }
            if let Some(constraint) = constraint {
                pieces.extend([Piece::Text(b" -> "), Piece::Node(constraint)]);
            }
        }
        pieces.push(Piece::Text(b";"));
        Some(())
    }

    /// `u <source-name> <template-arg>* E`
    fn vendor_call(&mut self) -> Option<Id> {
        self.skip(1);
        let name = self.source_name()?;
        let is_uuid = matches!(self.tree.kind(name), Kind::Name(b"__uuidof"));
        // The ending of its arguments is older than that of others.
        let arguments = if is_uuid && self.eat(b"t") {
            Box::new([self.ty()?])
        } else if is_uuid && self.eat(b"z") {
            Box::new([self.expression()?])
        } else {
            self.until(b"E", Self::template_argument)?
        };
        Some(self.call(name, arguments, false))
    }

    /// `<unresolved-name>`
    fn unresolved_name(&mut self, is_global: bool) -> Option<Id> {
        if self.eat(b"srN") {
            let mut scope = self.unresolved_type()?;
            while !self.eat(b"E") {
                let level = self.simple_id()?;
                scope = self.member_of(scope, level);
            }
            let name = self.base_unresolved_name()?;
            return Some(self.member_of(scope, name));
        }
        if !self.eat(b"sr") {
            let name = self.base_unresolved_name()?;
            return Some(if is_global { self.global(name) } else { name });
        }
        let scope =
            if self.peek(0).is_ascii_digit() { self.unresolved_scope(is_global)? } else { self.unresolved_type()? };
        let name = self.base_unresolved_name()?;
        Some(self.member_of(scope, name))
    }

    /// `<simple-id>+ E`
    fn unresolved_scope(&mut self, is_global: bool) -> Option<Id> {
        let first = self.simple_id()?;
        let mut scope = if is_global { self.global(first) } else { first };
        while !self.eat(b"E") {
            let level = self.simple_id()?;
            scope = self.member_of(scope, level);
        }
        Some(scope)
    }

    fn global(&mut self, name: Id) -> Id {
        self.tree.add(Kind::Scoped(vec![Piece::Text(b"::"), Piece::Node(name)], name))
    }

    fn member_of(&mut self, scope: Id, name: Id) -> Id {
        self.tree.add(Kind::Scoped(vec![Piece::Node(scope), Piece::Text(b"::"), Piece::Node(name)], name))
    }

    /// `<unresolved-type> [<template-args>]`
    fn unresolved_type(&mut self) -> Option<Id> {
        let ty = self.plain_unresolved_type()?;
        self.specialized(ty)
    }

    /// `<template-param> | <decltype> | <substitution>`
    fn plain_unresolved_type(&mut self) -> Option<Id> {
        let ty = match self.peek(0) {
            b'T' => self.template_parameter()?,
            b'D' => self.decltype()?,
            _ => return self.substitution(),
        };
        Some(self.substitutable(ty))
    }

    fn specialized(&mut self, name: Id) -> Option<Id> {
        if self.peek(0) != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments(false)?;
        Some(self.tree.add(Kind::Specialized(name, arguments)))
    }

    /// `<source-name> [<template-args>]`
    fn simple_id(&mut self) -> Option<Id> {
        let name = self.source_name()?;
        self.specialized(name)
    }

    /// `<simple-id> | dn <destructor-name> | [on] <operator-name> [<template-args>]`
    fn base_unresolved_name(&mut self) -> Option<Id> {
        if self.peek(0).is_ascii_digit() {
            return self.simple_id();
        }
        if self.eat(b"dn") {
            let is_id = self.peek(0).is_ascii_digit();
            let class = if is_id { self.simple_id()? } else { self.plain_unresolved_type()? };
            return Some(self.tree.pieces([Piece::Text(b"~"), Piece::Left(class)]));
        }
        self.eat(b"on");
        let name = self.operator_name(None)?;
        self.specialized(name)
    }
}
