//! Reads mangled names by the grammar of the Itanium C++ ABI. Each function reads one production of the grammar, and returns `None` if the
//! text does not match it. The parser never backtracks.

mod expressions;
mod literals;
mod names;
mod operators;
mod templates;
mod types;

use super::tree::{Id, Kind, Piece, Precedence, Qualifiers, Tree};

/// Nested types, expressions and encodings.
const DEEPEST: u32 = 400;

/// What a name tells of the function that it names.
#[derive(Debug)]
struct Traits {
    /// It has no return type: it is a constructor, a destructor, or converts to a type.
    is_untyped: bool,
    ends_with_arguments: bool,
    qualifiers: Qualifiers,
    reference: &'static [u8],
    has_object_parameter: bool,
    /// The first of the forward references in it.
    first_forward: usize,
}

pub(super) struct Parser<'n> {
    text: &'n [u8],
    at: usize,
    pub(super) tree: Tree<'n>,
    substitutions: Vec<Id>,
    /// Lists of template arguments: each level of parameters is one of them, or that of a lambda with `auto`, which has no list.
    lists: Vec<Vec<Id>>,
    levels: Vec<Option<usize>>,
    forward: Vec<Id>,
    /// `<` after a template parameter starts its arguments.
    takes_arguments: bool,
    /// Template parameters may refer to arguments behind them.
    allows_forward: bool,
    /// Template parameters are shown by their numbers, because arguments of outer levels are not known.
    shows_numbers: bool,
    /// The level of the parameters of the lambda whose signature is being read.
    lambda_level: Option<usize>,
    /// Parameters that got a name here, by kind.
    invented: [u32; 3],
    depth: u32,
}

impl<'n> Parser<'n> {
    pub(super) fn new(text: &'n [u8]) -> Self {
        Parser {
            text,
            at: 0,
            tree: Tree::default(),
            substitutions: Vec::new(),
            lists: Vec::new(),
            levels: Vec::new(),
            forward: Vec::new(),
            takes_arguments: true,
            allows_forward: false,
            shows_numbers: false,
            lambda_level: None,
            invented: [0; 3],
            depth: 0,
        }
    }

    /// Reads a whole mangled name, with the suffix that a compiler added.
    pub(super) fn mangled_name(&mut self) -> Option<Id> {
        if self.eat(b"_Z") || self.eat(b"__Z") {
            let mut name = self.encoding()?;
            if self.peek(0) == b'.' {
                let suffix = self.text.get(self.at..)?;
                self.at = self.text.len();
                let pieces = [Piece::Node(name), Piece::Text(b" ("), Piece::Text(suffix), Piece::Text(b")")];
                name = self.tree.pieces(pieces);
            }
            return self.is_at_end().then_some(name);
        }
        if self.eat(b"___Z") || self.eat(b"____Z") {
            return self.block();
        }
        None
    }

    /// `___Z <encoding> _block_invoke [<number> | _<number>]`
    fn block(&mut self) -> Option<Id> {
        let function = self.encoding()?;
        self.expect(b"_block_invoke")?;
        let has_number = self.eat(b"_");
        if self.number(false).is_empty() && has_number {
            return None;
        }
        if self.peek(0) == b'.' {
            self.at = self.text.len();
        }
        self.is_at_end().then(|| self.special("invocation function for block in ", function))
    }

    /// `<encoding>`: a function with its parameters, an object, or what the compiler made for one.
    fn encoding(&mut self) -> Option<Id> {
        let outer = std::mem::take(&mut self.levels);
        let result = self.nested(|parser| match parser.peek(0) {
            b'G' | b'T' => parser.special_name(),
            _ => parser.function_or_object(),
        });
        self.levels = outer;
        result
    }

    fn function_or_object(&mut self) -> Option<Id> {
        let mut traits = Traits {
            is_untyped: false,
            ends_with_arguments: false,
            qualifiers: Qualifiers::default(),
            reference: b"",
            has_object_parameter: false,
            first_forward: self.forward.len(),
        };
        let name = self.name_of(Some(&mut traits))?;
        self.resolve_forward(traits.first_forward)?;
        if self.is_end_of_encoding() {
            return Some(name);
        }
        let mut behind = self.enable_if()?;
        let has_return = !traits.is_untyped && traits.ends_with_arguments;
        let returned = if has_return { Some(self.ty()?) } else { None };
        let parameters = self.parameters(traits.has_object_parameter)?;
        if self.eat(b"Q") {
            behind.push(Piece::Text(b" requires "));
            behind.push(Piece::Node(self.constraint()?));
        }

        let mut left = Vec::new();
        let mut right = vec![Piece::Open(b'('), Piece::List(parameters), Piece::Close(b')')];
        if let Some(returned) = returned {
            left.extend([Piece::Left(returned), Piece::SpaceUnlessRight(returned)]);
            right.push(Piece::Right(returned));
        }
        left.push(Piece::Node(name));
        right.extend(traits.qualifiers.words().map(Piece::Text));
        right.push(Piece::Text(traits.reference));
        right.append(&mut behind);
        Some(self.tree.function(left, right))
    }

    fn resolve_forward(&mut self, first: usize) -> Option<()> {
        let arguments = self.levels.first().copied().flatten().and_then(|list| self.lists.get(list));
        for id in self.forward.drain(first.min(self.forward.len())..) {
            let Kind::Forward { index, .. } = self.tree.kind(id) else { continue };
            let argument = *arguments?.get(*index)?;
            self.tree.resolve(id, argument);
        }
        Some(())
    }

    /// Whether what follows can only be behind an encoding, not in a type.
    fn is_end_of_encoding(&self) -> bool {
        self.is_at_end() || matches!(self.peek(0), b'E' | b'.' | b'_')
    }

    /// The conditions of clang's attribute `enable_if`.
    fn enable_if(&mut self) -> Option<Vec<Piece<'n>>> {
        if !self.eat(b"Ua9enable_ifI") {
            return Some(Vec::new());
        }
        let conditions = self.until(b"E", Self::template_argument)?;
        Some(vec![Piece::Text(b" [enable_if:"), Piece::List(conditions), Piece::Text(b"]")])
    }

    fn parameters(&mut self, has_object: bool) -> Option<Box<[Id]>> {
        let mut types = Vec::new();
        if self.eat(b"v") {
            return Some(types.into());
        }
        loop {
            let mut ty = self.ty()?;
            if has_object && types.is_empty() {
                ty = self.tree.pieces([Piece::Text(b"this "), Piece::Node(ty)]);
            }
            types.push(ty);
            if self.is_end_of_encoding() || self.peek(0) == b'Q' {
                return Some(types.into());
            }
        }
    }

    /// `<special-name>`: tables, guards and thunks.
    fn special_name(&mut self) -> Option<Id> {
        let (read, title): (fn(&mut Self) -> Option<Id>, _) = match &[self.peek(0), self.peek(1)] {
            b"TV" => (Self::ty, "vtable for "),
            b"TT" => (Self::ty, "VTT for "),
            b"TI" => (Self::ty, "typeinfo for "),
            b"TS" => (Self::ty, "typeinfo name for "),
            b"TA" => (Self::template_argument, "template parameter object for "),
            b"TW" => (Self::name, "thread-local wrapper routine for "),
            b"TH" => (Self::name, "thread-local initialization routine for "),
            b"GV" => (Self::name, "guard variable for "),
            b"GR" => (Self::temporary, "reference temporary for "),
            b"GI" => (|parser| parser.modules(None)?, "initializer for module "),
            b"TC" => return self.construction_table(),
            [b'T', _] => return self.thunk(),
            _ => return None,
        };
        self.skip(2);
        let named = read(self)?;
        Some(self.special(title, named))
    }

    /// `<name> [<seq-id>] _`, where old names lack what is behind the name.
    fn temporary(&mut self) -> Option<Id> {
        let name = self.name()?;
        let has_number = self.sequence_number().is_some();
        (self.eat(b"_") || !has_number).then_some(name)
    }

    /// `T <call-offset> <encoding> | Tc <call-offset> <call-offset> <encoding>`
    fn thunk(&mut self) -> Option<Id> {
        self.expect(b"T")?;
        let title = match self.peek(0) {
            b'c' => {
                self.skip(1);
                self.call_offset()?;
                "covariant return thunk to "
            }
            b'v' => "virtual thunk to ",
            _ => "non-virtual thunk to ",
        };
        self.call_offset()?;
        let function = self.encoding()?;
        Some(self.special(title, function))
    }

    fn special(&mut self, title: &'static str, of: Id) -> Id {
        self.tree.pieces([Piece::Text(title.as_bytes()), Piece::Node(of)])
    }

    /// `TC <type> <number> _ <base type>`
    fn construction_table(&mut self) -> Option<Id> {
        self.expect(b"TC")?;
        let class = self.ty()?;
        self.required_number()?;
        self.expect(b"_")?;
        let base = self.ty()?;
        let title = Piece::Text(b"construction vtable for ");
        Some(self.tree.pieces([title, Piece::Node(base), Piece::Text(b"-in-"), Piece::Node(class)]))
    }

    /// `h <number> _ | v <number> _ <number> _`
    fn call_offset(&mut self) -> Option<()> {
        if !self.eat(b"h") {
            self.expect(b"v")?;
            self.required_number()?;
            self.expect(b"_")?;
        }
        self.required_number()?;
        self.expect(b"_")
    }

    /// Reads something within something else, unless it is nested too deeply.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads one thing, with the `E` behind it.
    fn ended<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let result = read(self)?;
        self.expect(b"E")?;
        Some(result)
    }

    /// `_ | <length> _`, the length of a vector or array.
    #[expect(clippy::option_option, reason = "there may be none, and what is there may be invalid")]
    fn length(&mut self, read: impl FnOnce(&mut Self) -> Option<Id>) -> Option<Option<Id>> {
        if self.eat(b"_") {
            return Some(None);
        }
        let length = read(self)?;
        self.expect(b"_")?;
        Some(Some(length))
    }

    /// Reads items up to this end.
    fn until(&mut self, end: &[u8], read: impl Fn(&mut Self) -> Option<Id>) -> Option<Box<[Id]>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(read(self)?);
        }
        Some(items.into())
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// The byte this far ahead, or 0.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.text.len());
    }

    fn left(&self) -> &'n [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, text: &[u8]) -> bool {
        let is_there = self.left().starts_with(text);
        if is_there {
            self.at += text.len();
        }
        is_there
    }

    fn expect(&mut self, text: &[u8]) -> Option<()> {
        self.eat(text).then_some(())
    }

    fn digits(&mut self) -> &'n [u8] {
        let left = self.left();
        let count = left.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        &left[..count]
    }

    /// `[n] <digits>` with the `n` of negative numbers; empty without digits.
    fn number(&mut self, may_be_negative: bool) -> &'n [u8] {
        let left = self.left();
        let sign = usize::from(may_be_negative && self.eat(b"n"));
        let digits = self.digits().len();
        if digits == 0 { b"" } else { &left[..sign + digits] }
    }

    fn required_number(&mut self) -> Option<&'n [u8]> {
        Some(self.number(true)).filter(|number| !number.is_empty())
    }

    fn positive(&mut self) -> Option<usize> {
        std::str::from_utf8(self.digits()).ok()?.parse().ok()
    }

    /// `<seq-id>`: digits and capital letters, to base 36.
    fn sequence_number(&mut self) -> Option<usize> {
        let left = self.left();
        let count = left.iter().take_while(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()).count();
        self.at += count;
        usize::from_str_radix(std::str::from_utf8(&left[..count]).ok()?, 36).ok()
    }

    /// `<length> <text>`
    fn counted_text(&mut self) -> Option<&'n [u8]> {
        let length = self.positive()?;
        let text = self.left().get(..length).filter(|text| !text.is_empty())?;
        self.at += length;
        Some(text)
    }

    fn qualifiers(&mut self) -> Qualifiers {
        let is_restrict = self.eat(b"r");
        let is_volatile = self.eat(b"V");
        Qualifiers { is_const: self.eat(b"K"), is_volatile, is_restrict }
    }

    /// Adds what can be substituted later.
    fn substitutable(&mut self, id: Id) -> Id {
        self.substitutions.push(id);
        id
    }

    fn add_expression<const N: usize>(&mut self, pieces: [Piece<'n>; N], precedence: Precedence) -> Id {
        self.tree.expression(Kind::Pieces(pieces.into()), precedence)
    }
}
