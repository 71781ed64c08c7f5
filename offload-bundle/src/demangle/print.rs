//! Prints a tree as C++, as LLVM's tools do.

use super::tree::{Answer, Id, Kind, Piece, Precedence, Property, Standard, Tree};

/// Nested halves of nodes; a name that refers to its own parts can nest deeper than it was read.
const DEEPEST: u32 = 800;

/// Steps. A short name can describe a text that no memory can hold, and one that is empty takes as long.
const MOST_STEPS: u32 = 1 << 20;

/// Bytes that are printed, also those that are taken back: an empty pack takes back what is around it.
const MOST_PRINTED: usize = super::LONGEST;

/// References to references, of which each is compared with those before it.
const LONGEST_CHAIN: usize = 100;

/// The name describes more than is worth printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

type Result<T> = std::result::Result<T, TooLarge>;

/// What an expansion prints of packs: this element, of so many.
#[derive(Debug, Clone, Copy)]
struct Turn {
    index: usize,
    count: usize,
}

pub(super) struct Printer<'t, 'n> {
    tree: &'t Tree<'n>,
    out: Vec<u8>,
    turn: Option<Turn>,
    /// Parentheses that are open within template arguments: a `>` there ends no list.
    open: u32,
    in_arguments: bool,
    /// References that are being printed. Damaged names can refer to themselves.
    active: Vec<bool>,
    depth: u32,
    steps: u32,
    printed: usize,
}

/// The tree as text.
pub(super) fn print(tree: &Tree<'_>, root: Id) -> Result<Vec<u8>> {
    let active = vec![false; tree.len()];
    let mut printer = Printer {
        tree,
        out: Vec::new(),
        turn: None,
        open: 0,
        in_arguments: false,
        active,
        depth: 0,
        steps: 0,
        printed: 0,
    };
    printer.node(root)?;
    Ok(printer.out)
}

impl<'n> Printer<'_, 'n> {
    fn text(&mut self, text: &[u8]) {
        self.printed += text.len();
        self.out.extend_from_slice(text);
    }

    fn open(&mut self, bracket: u8) {
        self.open += u32::from(self.in_arguments);
        self.out.push(bracket);
    }

    fn close(&mut self, bracket: u8) {
        self.open = self.open.saturating_sub(u32::from(self.in_arguments));
        self.out.push(bracket);
    }

    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        let fits = self.steps <= MOST_STEPS && self.depth < DEEPEST && self.printed <= MOST_PRINTED;
        fits.then_some(()).ok_or(TooLarge)
    }

    fn node(&mut self, id: Id) -> Result<()> {
        self.left(id)?;
        match self.tree.get(id).shape.get(Property::Right) {
            Answer::No => Ok(()),
            Answer::Yes | Answer::Unknown => self.right(id),
        }
    }

    fn operand(&mut self, id: Id, than: Precedence, equal: bool) -> Result<()> {
        let own = self.tree.get(id).precedence;
        if own < than || (equal && own == than) {
            return self.node(id);
        }
        self.open(b'(');
        self.node(id)?;
        self.close(b')');
        Ok(())
    }

    /// Takes a step into a part of what is printed.
    fn deeper<T>(&mut self, print: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.step()?;
        self.depth += 1;
        let result = print(self);
        self.depth -= 1;
        result
    }

    fn left(&mut self, id: Id) -> Result<()> {
        self.deeper(|printer| printer.left_of(id))
    }

    fn right(&mut self, id: Id) -> Result<()> {
        self.deeper(|printer| printer.right_of(id))
    }

    fn left_of(&mut self, id: Id) -> Result<()> {
        let tree = self.tree;
        match tree.kind(id) {
            Kind::Name(name) => self.text(name),
            Kind::Pieces(pieces) | Kind::Scoped(pieces, _) | Kind::Module(pieces) | Kind::Designated(pieces) => {
                self.pieces(pieces)?;
            }
            Kind::Split(left, _) => self.pieces(left)?,
            Kind::Specialized(name, arguments) => {
                self.node(*name)?;
                self.node(*arguments)?;
            }
            Kind::Standard { class, expanded } => self.standard(*class, *expanded),
            Kind::ArgumentPack(elements) => self.list(elements)?,
            Kind::DeclaredArgument(argument) => self.node(*argument)?,
            Kind::Integer { ty, value } => self.integer(ty, value),
            Kind::Initializers { ty, items } => self.initializers(*ty, items)?,
            Kind::Lambda { count, declarator } => {
                self.text(b"'lambda");
                self.text(count);
                self.text(b"'");
                self.node(*declarator)?;
            }
            Kind::Infix { left, operator, right } => {
                self.infix((*left, operator, *right), tree.get(id).precedence)?;
            }
            Kind::Protocol { class, protocol } => {
                self.node(*class)?;
                self.protocol(b"", protocol);
            }
            Kind::Qualified(child, qualifiers) => {
                self.left(*child)?;
                qualifiers.words().for_each(|word| self.text(word));
            }
            Kind::Tagged(child, tag) => {
                self.left(*child)?;
                self.text(b"[abi:");
                self.text(tag);
                self.text(b"]");
            }
            Kind::Pointer(to) => self.pointer(*to)?,
            Kind::Reference { .. } => self.guarded(id, Self::reference_left)?,
            Kind::MemberPointer { class, member } => self.member_pointer(*class, *member)?,
            Kind::Array { element, .. } => self.left(*element)?,
            Kind::Forward { argument, .. } => {
                self.guarded(id, |printer, _| argument.map_or(Ok(()), |argument| printer.left(argument)))?;
            }
            Kind::Pack(elements) => {
                if let Some(element) = self.element(elements) {
                    self.left(element)?;
                }
            }
            Kind::Expansion(pattern) => self.expansion(*pattern)?,
        }
        Ok(())
    }

    fn standard(&mut self, class: Standard, is_expanded: bool) {
        let (name, arguments) = if is_expanded { (class.template(), class.arguments()) } else { (class.short(), "") };
        for text in ["std::", name, arguments] {
            self.text(text.as_bytes());
        }
    }

    fn right_of(&mut self, id: Id) -> Result<()> {
        let tree = self.tree;
        match tree.kind(id) {
            Kind::Split(_, right) => self.pieces(right),
            Kind::Qualified(child, _) => self.right(*child),
            Kind::Pointer(to) if self.protocol_of(*to).is_none() => self.closing(*to),
            Kind::MemberPointer { member, .. } => self.closing(*member),
            Kind::Reference { .. } => self.guarded(id, |printer, id| match printer.collapsed(id)? {
                Some((to, _)) => printer.closing(to),
                None => Ok(()),
            }),
            Kind::Array { element, length } => {
                if self.out.last() != Some(&b']') {
                    self.text(b" ");
                }
                self.text(b"[");
                length.map_or(Ok(()), |length| self.node(length))?;
                self.text(b"]");
                self.right(*element)
            }
            Kind::Forward { argument, .. } => {
                self.guarded(id, |printer, _| argument.map_or(Ok(()), |argument| printer.right(argument)))
            }
            Kind::Pack(elements) => self.element(elements).map_or(Ok(()), |element| self.right(element)),
            _ => Ok(()),
        }
    }

    fn pieces(&mut self, pieces: &[Piece<'n>]) -> Result<()> {
        pieces.iter().try_for_each(|piece| self.piece(piece))
    }

    fn piece(&mut self, piece: &Piece<'n>) -> Result<()> {
        match piece {
            Piece::Text(text) => self.text(text),
            Piece::Node(id) => self.node(*id)?,
            Piece::Left(id) => self.left(*id)?,
            Piece::Right(id) => self.right(*id)?,
            Piece::Operand { node, than, equal } => self.operand(*node, *than, *equal)?,
            Piece::List(items) => self.list(items)?,
            Piece::Arguments(items) => self.arguments(|printer| printer.list(items))?,
            Piece::CastTarget(id) => self.arguments(|printer| printer.left(*id))?,
            Piece::Open(bracket) => self.open(*bracket),
            Piece::Close(bracket) => self.close(*bracket),
            Piece::Expansion(id) => self.expansion(*id)?,
            Piece::BaseName(id) => self.text(self.base_name(*id)),
            Piece::SpaceUnlessRight(id) => {
                if !self.has(*id, Property::Right)? {
                    self.text(b" ");
                }
            }
            Piece::Number(number) => self.text(number.to_string().as_bytes()),
            Piece::Spelled(text) => self.text(text.as_bytes()),
        }
        Ok(())
    }

    fn arguments(&mut self, print: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let outside = std::mem::replace(&mut self.in_arguments, true);
        self.text(b"<");
        print(self)?;
        self.text(b">");
        self.in_arguments = outside;
        Ok(())
    }

    /// Without the commas of what prints nothing: an empty pack.
    fn list(&mut self, items: &[Id]) -> Result<()> {
        let mut is_first = true;
        for item in items {
            let before = self.out.len();
            if !is_first {
                self.text(b", ");
            }
            let after = self.out.len();
            self.operand(*item, Precedence::Comma, false)?;
            if self.out.len() == after {
                self.out.truncate(before);
            } else {
                is_first = false;
            }
        }
        Ok(())
    }

    fn infix(&mut self, (left, operator, right): (Id, &[u8], Id), own: Precedence) -> Result<()> {
        // A list of arguments would end at it.
        let ends_list = self.open == 0 && matches!(operator, b">" | b">>");
        if ends_list {
            self.open(b'(');
        }
        let is_assignment = own == Precedence::Assign;
        let on_left = if is_assignment { Precedence::OrIf } else { own };
        self.operand(left, on_left, !is_assignment)?;
        if operator != b"," {
            self.text(b" ");
        }
        self.text(operator);
        self.text(b" ");
        self.operand(right, own, is_assignment)?;
        if ends_list {
            self.close(b')');
        }
        Ok(())
    }

    /// A long type is written in front of the number, a short one is its suffix: `(char)1`, `1ul`.
    fn integer(&mut self, ty: &[u8], value: &[u8]) {
        let is_suffix = ty.len() <= 3;
        if !is_suffix {
            self.open(b'(');
            self.text(ty);
            self.close(b')');
        }
        self.number(value);
        if is_suffix {
            self.text(ty);
        }
    }

    fn number(&mut self, value: &[u8]) {
        match value.strip_prefix(b"n") {
            Some(positive) => {
                self.text(b"-");
                self.text(positive);
            }
            None => self.text(value),
        }
    }

    fn initializers(&mut self, ty: Option<Id>, items: &[Id]) -> Result<()> {
        let characters = ty.filter(|ty| self.is_array_of_char(*ty)).and_then(|_| self.characters(items));
        if let Some(literal) = characters {
            self.text(&literal);
            return Ok(());
        }
        ty.map_or(Ok(()), |ty| self.node(ty))?;
        self.text(b"{");
        self.list(items)?;
        self.text(b"}");
        Ok(())
    }

    fn is_array_of_char(&self, ty: Id) -> bool {
        match self.tree.kind(ty) {
            Kind::Array { element, .. } => matches!(self.tree.kind(*element), Kind::Name(b"char")),
            _ => false,
        }
    }

    /// The string literal of these characters, if all of them are known.
    fn characters(&self, items: &[Id]) -> Option<Vec<u8>> {
        let mut literal = vec![b'"'];
        let mut after_escape = false;
        for item in items {
            let Kind::Integer { value, .. } = self.tree.kind(*item) else { return None };
            let byte: u8 = std::str::from_utf8(value).ok()?.parse().ok()?;
            // The escape would go on.
            if after_escape && byte.is_ascii_hexdigit() {
                literal.extend_from_slice(b"\"\"");
            }
            let escape = escape(byte);
            after_escape = escape.is_none() && (byte < 32 || byte == 127);
            match escape {
                Some(letter) => literal.extend_from_slice(&[b'\\', letter]),
                None if after_escape && byte < 8 => literal.extend_from_slice(format!("\\{byte}").as_bytes()),
                None if after_escape => literal.extend_from_slice(format!("\\x{byte:X}").as_bytes()),
                None => literal.push(byte),
            }
        }
        literal.push(b'"');
        Some(literal)
    }

    fn protocol(&mut self, class: &[u8], protocol: &[u8]) {
        self.text(class);
        self.text(b"<");
        self.text(protocol);
        self.text(b">");
    }

    /// The protocol of an `objc_object`: a pointer to it is an `id`.
    fn protocol_of(&self, id: Id) -> Option<&'n [u8]> {
        match self.tree.kind(id) {
            Kind::Protocol { class, protocol } if matches!(self.tree.kind(*class), Kind::Name(b"objc_object")) => {
                Some(protocol)
            }
            _ => None,
        }
    }

    fn pointer(&mut self, to: Id) -> Result<()> {
        if let Some(protocol) = self.protocol_of(to) {
            self.protocol(b"id", protocol);
            return Ok(());
        }
        self.opening(to)?;
        self.text(b"*");
        Ok(())
    }

    fn member_pointer(&mut self, class: Id, member: Id) -> Result<()> {
        self.left(member)?;
        let is_bracketed = self.is_bracketed(member)?;
        self.text(if is_bracketed { b"(" } else { b" " });
        self.node(class)?;
        self.text(b"::*");
        Ok(())
    }

    fn reference_left(&mut self, id: Id) -> Result<()> {
        let Some((to, is_rvalue)) = self.collapsed(id)? else { return Ok(()) };
        self.opening(to)?;
        self.text(if is_rvalue { b"&&" } else { b"&" });
        Ok(())
    }

    /// The left half of what a pointer or reference points to.
    fn opening(&mut self, to: Id) -> Result<()> {
        self.left(to)?;
        if self.has(to, Property::Array)? {
            self.text(b" ");
        }
        if self.is_bracketed(to)? {
            self.text(b"(");
        }
        Ok(())
    }

    fn closing(&mut self, to: Id) -> Result<()> {
        if self.is_bracketed(to)? {
            self.text(b")");
        }
        self.right(to)
    }

    fn is_bracketed(&mut self, id: Id) -> Result<bool> {
        Ok(self.has(id, Property::Array)? || self.has(id, Property::Function)?)
    }

    /// What a reference to a reference refers to, and whether it is an rvalue.
    fn collapsed(&mut self, id: Id) -> Result<Option<(Id, bool)>> {
        let tree = self.tree;
        let Kind::Reference { to, rvalue } = tree.kind(id) else { return Ok(None) };
        let (mut to, mut is_rvalue) = (*to, *rvalue);
        let mut seen = Vec::new();
        while let Kind::Reference { to: next, rvalue } = tree.kind(self.syntax(to)?) {
            if seen.contains(next) {
                return Ok(None);
            }
            if seen.len() == LONGEST_CHAIN {
                return Err(TooLarge);
            }
            seen.push(*next);
            to = *next;
            is_rvalue &= rvalue;
        }
        Ok(Some((to, is_rvalue)))
    }

    /// What stands for a pack or a forward reference.
    fn syntax(&mut self, id: Id) -> Result<Id> {
        self.step()?;
        let tree = self.tree;
        let next = match tree.kind(id) {
            Kind::Pack(elements) => self.element(elements),
            Kind::Forward { argument, .. } if !self.active[id.index()] => *argument,
            _ => None,
        };
        let Some(next) = next else { return Ok(id) };
        let was_active = std::mem::replace(&mut self.active[id.index()], true);
        self.depth += 1;
        let result = self.syntax(next);
        self.depth -= 1;
        self.active[id.index()] = was_active;
        result
    }

    fn has(&mut self, id: Id, property: Property) -> Result<bool> {
        match self.tree.get(id).shape.get(property) {
            Answer::Yes => Ok(true),
            Answer::No => Ok(false),
            Answer::Unknown => self.deeper(|printer| printer.has_now(id, property)),
        }
    }

    /// Whether it has the property in this turn of an expansion, and with these arguments.
    fn has_now(&mut self, id: Id, property: Property) -> Result<bool> {
        let tree = self.tree;
        match tree.kind(id) {
            Kind::Qualified(child, _) => self.has(*child, property),
            Kind::Pointer(to) | Kind::Reference { to, .. } | Kind::MemberPointer { member: to, .. } => {
                self.has(*to, property)
            }
            Kind::Pack(elements) => self.element(elements).map_or(Ok(false), |element| self.has(element, property)),
            Kind::Forward { argument: Some(argument), .. } if !self.active[id.index()] => {
                self.active[id.index()] = true;
                let result = self.has(*argument, property);
                self.active[id.index()] = false;
                result
            }
            _ => Ok(false),
        }
    }

    fn guarded(&mut self, id: Id, print: impl FnOnce(&mut Self, Id) -> Result<()>) -> Result<()> {
        if std::mem::replace(&mut self.active[id.index()], true) {
            return Ok(());
        }
        let result = print(self, id);
        self.active[id.index()] = false;
        result
    }

    /// The element of a pack whose turn it is; the first pack in an expansion decides how many turns there are.
    fn element(&mut self, elements: &[Id]) -> Option<Id> {
        let turn = self.turn.get_or_insert(Turn { index: 0, count: elements.len() });
        elements.get(turn.index).copied()
    }

    fn expansion(&mut self, pattern: Id) -> Result<()> {
        let outer = self.turn.take();
        let start = self.out.len();
        self.node(pattern)?;
        match self.turn.map(|turn| turn.count) {
            // It is one of function parameters, which the name does not list.
            None => self.text(b"..."),
            Some(0) => self.out.truncate(start),
            Some(count) => {
                for index in 1..count {
                    self.text(b", ");
                    self.turn = Some(Turn { index, count });
                    self.node(pattern)?;
                }
            }
        }
        self.turn = outer;
        Ok(())
    }

    fn base_name(&self, id: Id) -> &'n [u8] {
        let mut id = id;
        // Parts come before what they are parts of, so that this ends.
        loop {
            match self.tree.kind(id) {
                Kind::Name(name) => return name,
                Kind::Standard { class, expanded } => {
                    return if *expanded { class.template() } else { class.short() }.as_bytes();
                }
                Kind::Scoped(_, base) | Kind::Specialized(base, _) | Kind::Tagged(base, _) => id = *base,
                _ => return b"",
            }
        }
    }
}

fn escape(byte: u8) -> Option<u8> {
    let letters = [
        (7, b'a'),
        (8, b'b'),
        (12, b'f'),
        (b'\n', b'n'),
        (b'\r', b'r'),
        (b'\t', b't'),
        (11, b'v'),
        (b'"', b'"'),
        (b'\\', b'\\'),
    ];
    letters.iter().find(|(code, _)| *code == byte).map(|(_, letter)| *letter)
}
