//! Template parameters, their declarations, and arguments.

use super::super::tree::{Id, Kind, Piece};
use super::Parser;

/// The kinds of parameters that a lambda declares, which get names here.
#[derive(Clone, Copy)]
enum Invented {
    Type,
    Value,
    Template,
}

impl<'n> Parser<'n> {
    pub(super) fn new_list(&mut self) -> usize {
        self.lists.push(Vec::new());
        self.lists.len() - 1
    }

    /// `I <template-arg>* [Q <constraint>] E`. Parameters in the name of a function and in its type are those of its own arguments.
    pub(super) fn template_arguments(&mut self, names_function: bool) -> Option<Id> {
        self.expect(b"I")?;
        let list = names_function.then(|| self.new_list());
        if let Some(list) = list {
            self.levels.clear();
            self.levels.push(Some(list));
        }
        let mut arguments = Vec::new();
        while !self.eat(b"E") {
            let argument = self.template_argument()?;
            arguments.push(argument);
            if let Some(list) = list {
                let value = self.parameter_value(argument);
                self.lists.get_mut(list)?.push(value);
            }
            if self.eat(b"Q") {
                self.ended(Self::constraint)?;
                break;
            }
        }
        Some(self.tree.pieces([Piece::Arguments(arguments.into())]))
    }

    /// What the parameter of this argument stands for.
    fn parameter_value(&mut self, argument: Id) -> Id {
        match self.tree.kind(argument) {
            Kind::DeclaredArgument(value) => *value,
            Kind::ArgumentPack(elements) => {
                let elements = elements.clone();
                self.tree.add(Kind::Pack(elements))
            }
            _ => argument,
        }
    }

    /// `<template-arg>`
    pub(super) fn template_argument(&mut self) -> Option<Id> {
        self.nested(|parser| match (parser.peek(0), parser.peek(1)) {
            (b'X', _) => {
                parser.skip(1);
                parser.ended(Self::expression)
            }
            (b'J', _) => {
                parser.skip(1);
                let elements = parser.until(b"E", Self::template_argument)?;
                Some(parser.tree.add(Kind::ArgumentPack(elements)))
            }
            (b'L', b'Z') => {
                parser.skip(2);
                parser.ended(Self::encoding)
            }
            (b'L', _) => parser.literal(),
            (b'T', _) if parser.is_parameter_declaration() => {
                parser.parameter_declaration(None)?;
                let argument = parser.template_argument()?;
                Some(parser.tree.add(Kind::DeclaredArgument(argument)))
            }
            _ => parser.ty(),
        })
    }

    /// `T [L <level> _] [<number>] _`
    pub(super) fn template_parameter(&mut self) -> Option<Id> {
        let start = self.at;
        self.expect(b"T")?;
        let level = if self.eat(b"L") {
            let level = self.positive()?.checked_add(1)?;
            self.expect(b"_")?;
            level
        } else {
            0
        };
        let index = if self.peek(0) == b'_' { 0 } else { self.positive()?.checked_add(1)? };
        let number = self.text.get(start..self.at)?;
        self.expect(b"_")?;

        if self.shows_numbers {
            return Some(self.tree.name(number));
        }
        if self.allows_forward && level == 0 {
            let reference = self.tree.add(Kind::Forward { index, argument: None });
            self.forward.push(reference);
            return Some(reference);
        }
        let list = self.levels.get(level).copied().flatten().and_then(|list| self.lists.get(list));
        if let Some(argument) = list.and_then(|list| list.get(index)) {
            return Some(*argument);
        }
        // A parameter of a lambda that is declared `auto` is mangled as a template parameter.
        if self.lambda_level != Some(level) || level > self.levels.len() {
            return None;
        }
        if level == self.levels.len() {
            self.levels.push(None);
        }
        Some(self.tree.name(b"auto"))
    }

    pub(super) fn is_parameter_declaration(&self) -> bool {
        self.peek(0) == b'T' && matches!(self.peek(1), b'y' | b'p' | b't' | b'n' | b'k')
    }

    /// `<template-param-decl>`, whose name joins this list.
    pub(super) fn parameter_declaration(&mut self, list: Option<usize>) -> Option<Id> {
        self.nested(|parser| {
            parser.expect(b"T")?;
            let kind = parser.peek(0);
            parser.skip(1);
            match kind {
                b'y' => {
                    let name = parser.invent(Invented::Type, list);
                    Some(parser.declaration(vec![Piece::Text(b"typename ")], vec![Piece::Node(name)]))
                }
                b'k' => {
                    let concept = parser.with_numbers(Self::name)?;
                    let name = parser.invent(Invented::Type, list);
                    let left = vec![Piece::Node(concept), Piece::Text(b" ")];
                    Some(parser.declaration(left, vec![Piece::Node(name)]))
                }
                b'n' => {
                    let name = parser.invent(Invented::Value, list);
                    let ty = parser.ty()?;
                    let left = vec![Piece::Left(ty), Piece::SpaceUnlessRight(ty)];
                    Some(parser.declaration(left, vec![Piece::Node(name), Piece::Right(ty)]))
                }
                b't' => parser.template_declaration(list),
                b'p' => {
                    let inner = parser.parameter_declaration(list)?;
                    let left = vec![Piece::Left(inner), Piece::Text(b"...")];
                    Some(parser.declaration(left, vec![Piece::Right(inner)]))
                }
                _ => None,
            }
        })
    }

    fn declaration(&mut self, left: Vec<Piece<'n>>, right: Vec<Piece<'n>>) -> Id {
        self.tree.add(Kind::Split(left, right))
    }

    /// `Tt <template-param-decl>* [Q <constraint>] E`
    fn template_declaration(&mut self, list: Option<usize>) -> Option<Id> {
        let name = self.invent(Invented::Template, list);
        let outer = self.levels.len();
        let inner = self.new_list();
        self.levels.push(Some(inner));
        let mut parameters = Vec::new();
        let mut right = vec![Piece::Node(name)];
        while !self.eat(b"E") {
            parameters.push(self.parameter_declaration(Some(inner))?);
            if self.eat(b"Q") {
                right.extend([Piece::Text(b" requires "), Piece::Node(self.ended(Self::constraint)?)]);
                break;
            }
        }
        self.levels.truncate(outer);
        let left = vec![Piece::Text(b"template"), Piece::Arguments(parameters.into()), Piece::Text(b" typename ")];
        Some(self.declaration(left, right))
    }

    /// `$T`, `$T0`, `$T1`: mangled names do not say what parameters are called.
    fn invent(&mut self, kind: Invented, list: Option<usize>) -> Id {
        let letters: &[u8] = match kind {
            Invented::Type => b"$T",
            Invented::Value => b"$N",
            Invented::Template => b"$TT",
        };
        let count = &mut self.invented[kind as usize];
        let number = count.checked_sub(1).map(Piece::Number);
        *count += 1;
        let pieces = std::iter::once(Piece::Text(letters)).chain(number).collect();
        let name = self.tree.add(Kind::Pieces(pieces));
        if let Some(list) = list.and_then(|list| self.lists.get_mut(list)) {
            list.push(name);
        }
        name
    }

    /// `<constraint-expression>`, in which parameters of all levels occur.
    pub(super) fn constraint(&mut self) -> Option<Id> {
        self.with_numbers(Self::expression)
    }

    fn with_numbers(&mut self, read: impl FnOnce(&mut Self) -> Option<Id>) -> Option<Id> {
        let outer = std::mem::replace(&mut self.shows_numbers, true);
        let result = read(self);
        self.shows_numbers = outer;
        result
    }
}
