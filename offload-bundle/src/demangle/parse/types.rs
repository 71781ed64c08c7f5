//! Types.

use super::super::tree::{Id, Kind, Piece};
use super::Parser;

impl<'n> Parser<'n> {
    /// `<type>`
    pub(super) fn ty(&mut self) -> Option<Id> {
        self.nested(|parser| {
            if let Some(name) = parser.builtin() {
                return Some(parser.tree.name(name.as_bytes()));
            }
            let (ty, is_new) = parser.compound()?;
            if is_new {
                parser.substitutable(ty);
            }
            Some(ty)
        })
    }

    /// `<builtin-type>` that nothing substitutes.
    fn builtin(&mut self) -> Option<&'static str> {
        let (first, second, third) = (self.peek(0), self.peek(1), self.peek(2));
        let (length, name) = match (first, second) {
            (b'D', b'A' | b'R') => (3, fixed_point(second, third)?),
            (b'D', b'S') if self.peek(2) == b'D' => (5, saturated(self.peek(3), self.peek(4))?),
            (b'D', b'F') if self.left().starts_with(b"DF16b") => (5, "std::bfloat16_t"),
            (b'D', _) => (2, extended(second)?),
            _ => (1, basic(first)?),
        };
        self.skip(length);
        Some(name)
    }

    /// A type of several parts, and whether it can be substituted.
    fn compound(&mut self) -> Option<(Id, bool)> {
        let ty = match self.peek(0) {
            b'r' | b'V' | b'K' if self.is_qualified_function() => self.function_type()?,
            b'r' | b'V' | b'K' | b'U' => self.qualified_type()?,
            b'u' => self.vendor_type()?,
            b'D' => return self.extended_type(),
            b'F' => self.function_type()?,
            b'A' => self.array_type()?,
            b'M' => self.member_pointer()?,
            b'T' if !matches!(self.peek(1), b's' | b'u' | b'e') => self.parameter_type()?,
            b'P' => self.around(Kind::Pointer)?,
            b'R' => self.around(|to| Kind::Reference { to, rvalue: false })?,
            b'O' => self.around(|to| Kind::Reference { to, rvalue: true })?,
            b'C' => self.around(|ty| Kind::Pieces(vec![Piece::Left(ty), Piece::Text(b" complex")]))?,
            b'G' => self.around(|ty| Kind::Pieces(vec![Piece::Left(ty), Piece::Text(b" imaginary")]))?,
            b'S' if self.peek(1) != b't' => return self.substituted_type(),
            _ => self.class_type()?,
        };
        Some((ty, true))
    }

    fn around(&mut self, wrap: impl FnOnce(Id) -> Kind<'n>) -> Option<Id> {
        self.skip(1);
        let inner = self.ty()?;
        Some(self.tree.add(wrap(inner)))
    }

    fn is_qualified_function(&self) -> bool {
        let left = self.left();
        let behind = [b'r', b'V', b'K'].iter().fold(left, |left, letter| match left {
            [first, rest @ ..] if first == letter => rest,
            _ => left,
        });
        matches!(behind, [b'F', ..] | [b'D', b'o' | b'O' | b'w' | b'x', ..])
    }

    /// `<qualified-type>`
    fn qualified_type(&mut self) -> Option<Id> {
        self.nested(|parser| {
            if parser.eat(b"U") {
                return parser.vendor_qualified();
            }
            let qualifiers = parser.qualifiers();
            let ty = parser.ty()?;
            Some(if qualifiers.is_empty() { ty } else { parser.tree.add(Kind::Qualified(ty, qualifiers)) })
        })
    }

    /// `U <source-name> [<template-args>] <qualified-type>`
    fn vendor_qualified(&mut self) -> Option<Id> {
        let qualifier = self.counted_text()?;
        if let Some(protocol) = qualifier.strip_prefix(b"objcproto") {
            let digits = protocol.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let length: usize = std::str::from_utf8(&protocol[..digits]).ok()?.parse().ok()?;
            let protocol = protocol[digits..].get(..length).filter(|name| !name.is_empty())?;
            let class = self.qualified_type()?;
            return Some(self.tree.add(Kind::Protocol { class, protocol }));
        }
        let arguments = if self.peek(0) == b'I' { Some(self.template_arguments(false)?) } else { None };
        let ty = self.qualified_type()?;
        let pieces = [Piece::Node(ty), Piece::Text(b" "), Piece::Text(qualifier)];
        let pieces = pieces.into_iter().chain(arguments.map(Piece::Node)).collect();
        Some(self.tree.add(Kind::Pieces(pieces)))
    }

    /// `u <source-name> [I <type> E]`
    fn vendor_type(&mut self) -> Option<Id> {
        self.expect(b"u")?;
        let name = self.counted_text()?;
        if !self.eat(b"I") {
            return Some(self.tree.name(name));
        }
        let ty = self.ended(Self::ty)?;
        Some(self.tree.pieces([Piece::Text(name), Piece::Text(b"("), Piece::Node(ty), Piece::Text(b")")]))
    }

    /// Types that start with `D`, and whether they can be substituted.
    fn extended_type(&mut self) -> Option<(Id, bool)> {
        let second = self.peek(1);
        match second {
            b'F' => {
                self.skip(2);
                let bits = self.number(false);
                self.expect(b"_")?;
                return Some((self.tree.pieces([Piece::Text(b"_Float"), Piece::Text(bits)]), false));
            }
            b'k' | b'K' => {
                self.skip(2);
                let concept = self.name()?;
                let word: &[u8] = if second == b'k' { b" auto" } else { b" decltype(auto)" };
                return Some((self.tree.pieces([Piece::Left(concept), Piece::Text(word)]), false));
            }
            _ => {}
        }
        let ty = match second {
            b'B' | b'U' => self.bit_int(second == b'B')?,
            b't' | b'T' => self.decltype()?,
            b'v' => self.vector_type()?,
            b'p' => {
                self.skip(2);
                let pattern = self.ty()?;
                self.tree.add(Kind::Expansion(pattern))
            }
            b'o' | b'O' | b'w' | b'x' => self.function_type()?,
            _ => return None,
        };
        Some((ty, true))
    }

    /// `DB | DU, <number> | <expression>, _`
    fn bit_int(&mut self, is_signed: bool) -> Option<Id> {
        self.skip(2);
        let bits = self.number_or_expression()?;
        self.expect(b"_")?;
        let name: &[u8] = if is_signed { b"_BitInt" } else { b"unsigned _BitInt" };
        Some(self.tree.pieces([Piece::Text(name), Piece::Open(b'('), Piece::Node(bits), Piece::Close(b')')]))
    }

    fn number_or_expression(&mut self) -> Option<Id> {
        if !self.peek(0).is_ascii_digit() {
            return self.expression();
        }
        let number = self.number(false);
        Some(self.tree.name(number))
    }

    /// `Dt | DT, <expression> E`
    pub(super) fn decltype(&mut self) -> Option<Id> {
        if !self.eat(b"Dt") {
            self.expect(b"DT")?;
        }
        let expression = self.ended(Self::expression)?;
        Some(self.enclosed(b"decltype", expression, super::Precedence::Primary))
    }

    /// `Dv [<number> | <expression>] _ (<type> | p)`
    fn vector_type(&mut self) -> Option<Id> {
        self.expect(b"Dv")?;
        let is_number = matches!(self.peek(0), b'1'..=b'9');
        let length = self.length(if is_number { Self::number_or_expression } else { Self::expression })?;
        let mut pieces = if is_number && self.eat(b"p") {
            vec![Piece::Text(b"pixel vector[")]
        } else {
            vec![Piece::Node(self.ty()?), Piece::Text(b" vector[")]
        };
        pieces.extend(length.map(Piece::Node));
        pieces.push(Piece::Text(b"]"));
        Some(self.tree.add(Kind::Pieces(pieces)))
    }

    /// `A [<number> | <expression>] _ <type>`
    fn array_type(&mut self) -> Option<Id> {
        self.expect(b"A")?;
        let length = self.length(Self::number_or_expression)?;
        let element = self.ty()?;
        Some(self.tree.add(Kind::Array { element, length }))
    }

    /// `M <class type> <member type>`
    fn member_pointer(&mut self) -> Option<Id> {
        self.expect(b"M")?;
        let class = self.ty()?;
        let member = self.ty()?;
        Some(self.tree.add(Kind::MemberPointer { class, member }))
    }

    /// `[Ts | Tu | Te] <name>`
    fn class_type(&mut self) -> Option<Id> {
        let keyword: Option<&[u8]> = match () {
            () if self.eat(b"Ts") => Some(b"struct "),
            () if self.eat(b"Tu") => Some(b"union "),
            () if self.eat(b"Te") => Some(b"enum "),
            () => None,
        };
        let name = self.name()?;
        Some(keyword.map_or(name, |keyword| self.tree.pieces([Piece::Text(keyword), Piece::Node(name)])))
    }

    /// `<template-param> [<template-args>]`
    fn parameter_type(&mut self) -> Option<Id> {
        let parameter = self.template_parameter()?;
        if !self.takes_arguments || self.peek(0) != b'I' {
            return Some(parameter);
        }
        self.substitutable(parameter);
        let arguments = self.template_arguments(false)?;
        Some(self.tree.add(Kind::Specialized(parameter, arguments)))
    }

    /// `<substitution> [<template-args>]`, or a name in a module.
    fn substituted_type(&mut self) -> Option<(Id, bool)> {
        let (name, is_substitution) = self.unscoped(None)?;
        if self.peek(0) != b'I' || (is_substitution && !self.takes_arguments) {
            return Some((name, !is_substitution));
        }
        if !is_substitution {
            self.substitutable(name);
        }
        let arguments = self.template_arguments(false)?;
        Some((self.tree.add(Kind::Specialized(name, arguments)), true))
    }

    /// `[<qualifiers>] [<exception-spec>] [Dx] F [Y] <type>+ [R | O] E`
    fn function_type(&mut self) -> Option<Id> {
        let qualifiers = self.qualifiers();
        let exceptions = self.exceptions()?;
        self.eat(b"Dx");
        self.expect(b"F")?;
        self.eat(b"Y");
        let returned = self.ty()?;
        let mut parameters = Vec::new();
        let reference: &[u8] = loop {
            match () {
                () if self.eat(b"E") => break b"",
                () if self.eat(b"RE") => break b" &",
                () if self.eat(b"OE") => break b" &&",
                () if self.eat(b"v") => {}
                () => parameters.push(self.ty()?),
            }
        };
        let list = Piece::List(parameters.into());
        let mut right = vec![Piece::Open(b'('), list, Piece::Close(b')'), Piece::Right(returned)];
        right.extend(qualifiers.words().map(Piece::Text));
        right.push(Piece::Text(reference));
        right.extend(exceptions);
        Some(self.tree.function(vec![Piece::Left(returned), Piece::Text(b" ")], right))
    }

    /// `Do | DO <expression> E | Dw <type>+ E`
    fn exceptions(&mut self) -> Option<Vec<Piece<'n>>> {
        if self.eat(b"Do") {
            return Some(vec![Piece::Text(b" noexcept")]);
        }
        if self.eat(b"DO") {
            let condition = Piece::Node(self.ended(Self::expression)?);
            return Some(vec![Piece::Text(b" noexcept"), Piece::Open(b'('), condition, Piece::Close(b')')]);
        }
        if self.eat(b"Dw") {
            let types = self.until(b"E", Self::ty)?;
            return Some(vec![Piece::Text(b" throw"), Piece::Open(b'('), Piece::List(types), Piece::Close(b')')]);
        }
        Some(Vec::new())
    }
}

fn basic(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'w' => "wchar_t",
        b'b' => "bool",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b'f' => "float",
        b'd' => "double",
        b'e' => "long double",
        b'g' => "__float128",
        b'z' => "...",
        _ => return None,
    })
}

fn extended(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'd' => "decimal64",
        b'e' => "decimal128",
        b'f' => "decimal32",
        b'h' => "half",
        b'i' => "char32_t",
        b's' => "char16_t",
        b'u' => "char8_t",
        b'a' => "auto",
        b'c' => "decltype(auto)",
        b'n' => "std::nullptr_t",
        _ => return None,
    })
}

/// Of embedded C: `_Accum` and `_Fract`.
fn fixed_point(kind: u8, size: u8) -> Option<&'static str> {
    saturated(kind, size)?.strip_prefix("_Sat ")
}

fn saturated(kind: u8, size: u8) -> Option<&'static str> {
    Some(match (kind, size) {
        (b'A', b's') => "_Sat short _Accum",
        (b'A', b't') => "_Sat unsigned short _Accum",
        (b'A', b'i') => "_Sat _Accum",
        (b'A', b'j') => "_Sat unsigned _Accum",
        (b'A', b'l') => "_Sat long _Accum",
        (b'A', b'm') => "_Sat unsigned long _Accum",
        (b'R', b's') => "_Sat short _Fract",
        (b'R', b't') => "_Sat unsigned short _Fract",
        (b'R', b'i') => "_Sat _Fract",
        (b'R', b'j') => "_Sat unsigned _Fract",
        (b'R', b'l') => "_Sat long _Fract",
        (b'R', b'm') => "_Sat unsigned long _Fract",
        _ => return None,
    })
}
