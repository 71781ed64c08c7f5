//! Names: nested, local and unscoped ones, constructors, lambdas.

use super::super::tree::{Id, Kind, Piece, Standard};
use super::operators::{self, Class};
use super::{Parser, Traits};

impl<'n> Parser<'n> {
    /// `<name>` of anything but a function.
    pub(super) fn name(&mut self) -> Option<Id> {
        self.name_of(None)
    }

    /// `<name>`
    pub(super) fn name_of(&mut self, traits: Option<&mut Traits>) -> Option<Id> {
        self.nested(|parser| match parser.peek(0) {
            b'N' => parser.nested_name(traits),
            b'Z' => parser.local_name(traits),
            _ => parser.unscoped_or_template(traits),
        })
    }

    /// `<unscoped-name>`, `<unscoped-template-name> <template-args>`
    fn unscoped_or_template(&mut self, mut traits: Option<&mut Traits>) -> Option<Id> {
        let (name, is_substitution) = self.unscoped(traits.as_deref_mut())?;
        if self.peek(0) != b'I' {
            // A substitution alone would be a type.
            return (!is_substitution).then_some(name);
        }
        if !is_substitution {
            self.substitutable(name);
        }
        let arguments = self.template_arguments(traits.is_some())?;
        if let Some(traits) = traits {
            traits.ends_with_arguments = true;
        }
        Some(self.tree.add(Kind::Specialized(name, arguments)))
    }

    /// `[St] <unqualified-name>`, or a substitution, and whether it is one.
    pub(super) fn unscoped(&mut self, traits: Option<&mut Traits>) -> Option<(Id, bool)> {
        let scope = self.eat(b"St").then(|| self.tree.name(b"std"));
        let mut module = None;
        if self.peek(0) == b'S' {
            let found = self.substitution()?;
            match self.tree.kind(found) {
                Kind::Module(_) => module = Some(found),
                _ if scope.is_none() => return Some((found, true)),
                _ => return None,
            }
        }
        Some((self.unqualified(traits, scope, module)?, false))
    }

    /// `[<module-name>] [F] [L] <operator-name | ctor-dtor-name | source-name | unnamed-type-name> <abi-tag>*`
    fn unqualified(&mut self, mut traits: Option<&mut Traits>, scope: Option<Id>, module: Option<Id>) -> Option<Id> {
        let module = self.modules(module)?;
        let is_friend = scope.is_some() && self.eat(b"F");
        self.eat(b"L");
        let mut scope = scope;
        let mut name = match self.peek(0) {
            b'1'..=b'9' => self.source_name()?,
            b'U' => self.unnamed(traits.is_some())?,
            b'D' if self.peek(1) == b'C' => self.binding()?,
            b'C' | b'D' => {
                if module.is_some() {
                    return None;
                }
                let class = self.expanded(scope?);
                scope = Some(class);
                self.constructor(class, traits.as_deref_mut())?
            }
            _ => self.operator_name(traits)?,
        };
        if let Some(module) = module {
            name = self.scoped([Piece::Node(name), Piece::Text(b"@"), Piece::Node(module)], name);
        }
        name = self.tagged(name)?;
        let separator: &[u8] = if is_friend { b"::friend " } else { b"::" };
        Some(
            scope.map_or(name, |scope| {
                self.scoped([Piece::Node(scope), Piece::Text(separator), Piece::Node(name)], name)
            }),
        )
    }

    fn scoped(&mut self, pieces: [Piece<'n>; 3], base: Id) -> Id {
        self.tree.add(Kind::Scoped(pieces.into(), base))
    }

    /// Constructors belong to the template that an abbreviation stands for.
    fn expanded(&mut self, scope: Id) -> Id {
        match self.tree.kind(scope) {
            Kind::Standard { class, .. } => {
                let class = *class;
                self.tree.add(Kind::Standard { class, expanded: true })
            }
            _ => scope,
        }
    }

    /// `(W [P] <source-name>)*`, the innermost module.
    #[expect(clippy::option_option, reason = "there may be none, and what is there may be invalid")]
    pub(super) fn modules(&mut self, outer: Option<Id>) -> Option<Option<Id>> {
        let mut module = outer;
        while self.eat(b"W") {
            let is_partition = self.eat(b"P");
            let name = self.source_name()?;
            let separator: &[u8] = match (is_partition, module) {
                (true, _) => b":",
                (false, Some(_)) => b".",
                (false, None) => b"",
            };
            let parent = module.map(Piece::Node);
            let pieces = parent.into_iter().chain([Piece::Text(separator), Piece::Node(name)]).collect();
            let inner = self.tree.add(Kind::Module(pieces));
            module = Some(self.substitutable(inner));
        }
        Some(module)
    }

    /// `DC <source-name>+ E`: a structured binding.
    fn binding(&mut self) -> Option<Id> {
        self.expect(b"DC")?;
        let first = self.source_name()?;
        let rest = self.until(b"E", Self::source_name)?;
        let names = std::iter::once(first).chain(rest).collect();
        Some(self.tree.pieces([Piece::Open(b'['), Piece::List(names), Piece::Close(b']')]))
    }

    /// `<source-name>`
    pub(super) fn source_name(&mut self) -> Option<Id> {
        let name = self.counted_text()?;
        let is_anonymous = name.starts_with(b"_GLOBAL__N");
        Some(self.tree.name(if is_anonymous { b"(anonymous namespace)" } else { name }))
    }

    /// `<abi-tag>*`
    fn tagged(&mut self, name: Id) -> Option<Id> {
        let mut name = name;
        while self.eat(b"B") {
            let tag = self.counted_text()?;
            name = self.tree.add(Kind::Tagged(name, tag));
        }
        Some(name)
    }

    /// `<ctor-dtor-name>`
    fn constructor(&mut self, class: Id, mut traits: Option<&mut Traits>) -> Option<Id> {
        if let Some(traits) = &mut traits {
            traits.is_untyped = true;
        }
        if self.eat(b"C") {
            let is_inherited = self.eat(b"I");
            if !matches!(self.peek(0), b'1'..=b'5') {
                return None;
            }
            self.skip(1);
            if is_inherited {
                self.name_of(traits)?;
            }
            return Some(self.tree.pieces([Piece::BaseName(class)]));
        }
        self.expect(b"D")?;
        if !matches!(self.peek(0), b'0' | b'1' | b'2' | b'4' | b'5') {
            return None;
        }
        self.skip(1);
        Some(self.tree.pieces([Piece::Text(b"~"), Piece::BaseName(class)]))
    }

    /// `<operator-name>`
    pub(super) fn operator_name(&mut self, traits: Option<&mut Traits>) -> Option<Id> {
        if let Some(operator) = self.operator() {
            if operator.class == Class::Conversion {
                return self.conversion_name(traits);
            }
            return operator.can_name_function().then(|| self.tree.name(operator.name.as_bytes()));
        }
        if self.eat(b"li") {
            let suffix = self.source_name()?;
            return Some(self.tree.pieces([Piece::Text(b"operator\"\" "), Piece::Node(suffix)]));
        }
        self.expect(b"v")?;
        if !self.peek(0).is_ascii_digit() {
            return None;
        }
        self.skip(1);
        let name = self.source_name()?;
        Some(self.tree.pieces([Piece::Text(b"operator "), Piece::Node(name)]))
    }

    /// The type of a conversion function may refer to the function's own arguments, which follow.
    fn conversion_name(&mut self, traits: Option<&mut Traits>) -> Option<Id> {
        let takes_arguments = std::mem::replace(&mut self.takes_arguments, false);
        let allows_forward = self.allows_forward;
        self.allows_forward |= traits.is_some();
        let ty = self.ty()?;
        self.takes_arguments = takes_arguments;
        self.allows_forward = allows_forward;
        if let Some(traits) = traits {
            traits.is_untyped = true;
        }
        Some(self.tree.pieces([Piece::Text(b"operator "), Piece::Node(ty)]))
    }

    pub(super) fn operator(&mut self) -> Option<&'static operators::Operator> {
        let operator = operators::find([self.peek(0), self.peek(1)])?;
        self.skip(2);
        Some(operator)
    }

    /// `N [H | <qualifiers> [R | O]] <prefix> <unqualified-name> E`
    fn nested_name(&mut self, mut traits: Option<&mut Traits>) -> Option<Id> {
        self.expect(b"N")?;
        if self.eat(b"H") {
            if let Some(traits) = &mut traits {
                traits.has_object_parameter = true;
            }
        } else {
            let qualifiers = self.qualifiers();
            let reference: &[u8] = match () {
                () if self.eat(b"O") => b" &&",
                () if self.eat(b"R") => b" &",
                () => b"",
            };
            if let Some(traits) = &mut traits {
                traits.qualifiers = qualifiers;
                traits.reference = reference;
            }
        }
        let mut name = None;
        while !self.eat(b"E") {
            if let Some(traits) = &mut traits {
                traits.ends_with_arguments = false;
            }
            let (next, is_new) = self.prefix_part(name, traits.as_deref_mut())?;
            if is_new {
                self.substitutable(next);
                // Members of old compilers end like this.
                self.eat(b"M");
            }
            name = Some(next);
        }
        // The whole is pushed by whoever reads a type, and never substituted as a function.
        self.substitutions.pop()?;
        name
    }

    /// The next longer prefix, and whether it can be substituted.
    fn prefix_part(&mut self, so_far: Option<Id>, traits: Option<&mut Traits>) -> Option<(Id, bool)> {
        match (self.peek(0), self.peek(1)) {
            (b'T', _) if so_far.is_none() => Some((self.template_parameter()?, true)),
            (b'D', b't' | b'T') if so_far.is_none() => Some((self.decltype()?, true)),
            (b'T', _) | (b'D', b't' | b'T') => None,
            (b'I', _) => {
                let name = so_far?;
                let arguments = self.template_arguments(traits.is_some())?;
                if matches!(self.tree.kind(name), Kind::Specialized(..)) {
                    return None;
                }
                if let Some(traits) = traits {
                    traits.ends_with_arguments = true;
                }
                Some((self.tree.add(Kind::Specialized(name, arguments)), true))
            }
            (b'S', _) => {
                let found = if self.eat(b"St") { self.tree.name(b"std") } else { self.substitution()? };
                match (self.tree.kind(found), so_far) {
                    (Kind::Module(_), _) => Some((self.unqualified(traits, so_far, Some(found))?, true)),
                    (_, None) => Some((found, false)),
                    (_, Some(_)) => None,
                }
            }
            _ => Some((self.unqualified(traits, so_far, None)?, true)),
        }
    }

    /// `Z <encoding> E (s | [d [<number>] _] <name>) [<discriminator>]`
    fn local_name(&mut self, traits: Option<&mut Traits>) -> Option<Id> {
        self.expect(b"Z")?;
        let function = self.ended(Self::encoding)?;
        let entity = if self.eat(b"s") {
            self.discriminator();
            self.tree.name(b"string literal")
        } else {
            let outer = std::mem::take(&mut self.levels);
            let entity = self.local_entity(traits)?;
            self.levels = outer;
            entity
        };
        Some(self.tree.pieces([Piece::Node(function), Piece::Text(b"::"), Piece::Node(entity)]))
    }

    fn local_entity(&mut self, traits: Option<&mut Traits>) -> Option<Id> {
        if self.eat(b"d") {
            self.number(true);
            self.expect(b"_")?;
            return self.name_of(traits);
        }
        let entity = self.name_of(traits)?;
        self.discriminator();
        Some(entity)
    }

    /// `_ <digit> | __ <digits> _`, or the digits at the end of a name that compilers add to statics.
    fn discriminator(&mut self) {
        let left = self.left();
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = match left {
            [b'_', b'0'..=b'9', ..] => 2,
            [b'_', b'_', rest @ ..] => match digits(rest) {
                count if rest.get(count) == Some(&b'_') => count + 3,
                _ => 0,
            },
            _ if digits(left) == left.len() => left.len(),
            _ => 0,
        };
        self.skip(length);
    }

    /// `<unnamed-type-name>`
    pub(super) fn unnamed(&mut self, names_function: bool) -> Option<Id> {
        if names_function {
            self.levels.clear();
        }
        if self.eat(b"Ut") {
            let count = self.number(false);
            self.expect(b"_")?;
            return Some(self.tree.pieces([Piece::Text(b"'unnamed"), Piece::Text(count), Piece::Text(b"'")]));
        }
        if self.eat(b"Ub") {
            self.number(false);
            self.expect(b"_")?;
            return Some(self.tree.name(b"'block-literal'"));
        }
        self.expect(b"Ul")?;
        let outer_level = self.lambda_level.replace(self.levels.len());
        let outer_count = self.levels.len();
        let declarator = self.lambda_signature()?;
        self.levels.truncate(outer_count);
        self.lambda_level = outer_level;
        self.expect(b"E")?;
        let count = self.number(false);
        self.expect(b"_")?;
        Some(self.tree.add(Kind::Lambda { count, declarator }))
    }

    /// `<template-param-decl>* [Q <constraint>] (v | <type>+) [Q <constraint>]`
    fn lambda_signature(&mut self) -> Option<Id> {
        let level = self.levels.len();
        let list = self.new_list();
        self.levels.push(Some(list));
        let mut declared = Vec::new();
        while self.is_parameter_declaration() {
            declared.push(self.parameter_declaration(Some(list))?);
        }
        let mut pieces = Vec::new();
        if declared.is_empty() {
            // `auto` brings the level back.
            self.levels.truncate(level);
        } else {
            pieces.push(Piece::Arguments(declared.into()));
        }
        if self.eat(b"Q") {
            pieces.extend([Piece::Text(b" requires "), Piece::Node(self.constraint()?), Piece::Text(b" ")]);
        }
        let mut parameters = Vec::new();
        if !self.eat(b"v") {
            parameters.push(self.ty()?);
            while !matches!(self.peek(0), b'E' | b'Q') {
                parameters.push(self.ty()?);
            }
        }
        pieces.extend([Piece::Open(b'('), Piece::List(parameters.into()), Piece::Close(b')')]);
        if self.eat(b"Q") {
            pieces.extend([Piece::Text(b" requires "), Piece::Node(self.constraint()?)]);
        }
        Some(self.tree.add(Kind::Pieces(pieces)))
    }

    /// `<substitution>`
    pub(super) fn substitution(&mut self) -> Option<Id> {
        self.expect(b"S")?;
        let class = match self.peek(0) {
            b'a' => Standard::Allocator,
            b'b' => Standard::BasicString,
            b'd' => Standard::Stream,
            b'i' => Standard::InputStream,
            b'o' => Standard::OutputStream,
            b's' => Standard::String,
            _ => return self.earlier(),
        };
        self.skip(1);
        let plain = self.tree.add(Kind::Standard { class, expanded: false });
        let tagged = self.tagged(plain)?;
        if tagged != plain {
            self.substitutable(tagged);
        }
        Some(tagged)
    }

    fn earlier(&mut self) -> Option<Id> {
        if self.eat(b"_") {
            return self.substitutions.first().copied();
        }
        let index = self.sequence_number()?.checked_add(1)?;
        self.expect(b"_")?;
        self.substitutions.get(index).copied()
    }
}
