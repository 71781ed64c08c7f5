//! What a mangled name says, as a tree: nodes in one list, which refer to each other by their places in it.
//!
//! C++ writes some types around what they are the type of: `int (*)[4]` is a pointer between two halves of an array. Every node is
//! therefore printed in two halves, of which the right one is mostly empty.

/// The place of a node in its [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(u32);

impl Id {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// How strongly an expression holds its operands, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Primary,
    Postfix,
    Unary,
    Cast,
    PointerToMember,
    Multiplicative,
    Additive,
    Shift,
    Spaceship,
    Relational,
    Equality,
    And,
    Xor,
    Or,
    AndIf,
    OrIf,
    Conditional,
    Assign,
    Comma,
}

/// Whether a node has a property; `Unknown` where it depends on the element of a pack, or on arguments that come later in the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    No,
    Yes,
    Unknown,
}

/// The properties of a node that decide where parentheses are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    /// Its right half is not empty.
    Right,
    Array,
    Function,
}

/// The answer for each [`Property`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape(pub(super) [Answer; 3]);

impl Shape {
    const PLAIN: Shape = Shape([Answer::No; 3]);
    const SPLIT: Shape = Shape([Answer::Yes, Answer::No, Answer::No]);
    const ARRAY: Shape = Shape([Answer::Yes, Answer::Yes, Answer::No]);
    const FUNCTION: Shape = Shape([Answer::Yes, Answer::No, Answer::Yes]);
    const UNKNOWN: Shape = Shape([Answer::Unknown; 3]);

    pub(super) fn get(self, property: Property) -> Answer {
        self.0[property as usize]
    }
}

/// A part of what a node prints.
#[derive(Debug)]
pub(super) enum Piece<'n> {
    Text(&'n [u8]),
    Node(Id),
    Left(Id),
    Right(Id),
    /// In parentheses if it is weaker than this or, unless `equal` is, as weak.
    Operand {
        node: Id,
        than: Precedence,
        equal: bool,
    },
    /// Separated by commas.
    List(Box<[Id]>),
    /// The same between `<` and `>`.
    Arguments(Box<[Id]>),
    /// `<`, the left half of a type, and `>`.
    CastTarget(Id),
    Open(u8),
    Close(u8),
    /// Once for each element of the packs in it.
    Expansion(Id),
    /// The last name of a scope, by which constructors are called.
    BaseName(Id),
    /// A space after what ends by itself where it has a right half.
    SpaceUnlessRight(Id),
    Number(u32),
    /// Text that the name spells in another way.
    Spelled(Box<str>),
}

/// A class of the standard library with an abbreviation of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standard {
    Allocator,
    BasicString,
    String,
    InputStream,
    OutputStream,
    Stream,
}

impl Standard {
    /// Its name as a template.
    pub(super) fn template(self) -> &'static str {
        match self {
            Standard::Allocator => "allocator",
            Standard::BasicString | Standard::String => "basic_string",
            Standard::InputStream => "basic_istream",
            Standard::OutputStream => "basic_ostream",
            Standard::Stream => "basic_iostream",
        }
    }

    /// The arguments of its template, if it is an instance of one.
    pub(super) fn arguments(self) -> &'static str {
        match self {
            Standard::Allocator | Standard::BasicString => "",
            Standard::String => "<char, std::char_traits<char>, std::allocator<char>>",
            Standard::InputStream | Standard::OutputStream | Standard::Stream => "<char, std::char_traits<char>>",
        }
    }

    /// The name that programs use: `string`.
    pub(super) fn short(self) -> &'static str {
        let template = self.template();
        if self.arguments().is_empty() { template } else { template.trim_start_matches("basic_") }
    }
}

#[derive(Debug)]
pub(super) enum Kind<'n> {
    Name(&'n [u8]),
    /// Anything without a right half that needs no name of its own below.
    Pieces(Vec<Piece<'n>>),
    /// The same, called by the name of its last part.
    Scoped(Vec<Piece<'n>>, Id),
    /// A name with arguments.
    Specialized(Id, Id),
    Module(Vec<Piece<'n>>),
    Standard {
        class: Standard,
        expanded: bool,
    },
    ArgumentPack(Box<[Id]>),
    /// An argument behind the declaration of its parameter, which is not printed.
    DeclaredArgument(Id),
    Integer {
        ty: &'n [u8],
        value: &'n [u8],
    },
    /// A designated initializer: `.x = 1`.
    Designated(Vec<Piece<'n>>),
    /// Initializers in braces, which are a string literal if they are one.
    Initializers {
        ty: Option<Id>,
        items: Box<[Id]>,
    },
    Lambda {
        count: &'n [u8],
        declarator: Id,
    },
    Infix {
        left: Id,
        operator: &'n [u8],
        right: Id,
    },
    /// A class of Objective-C with a protocol.
    Protocol {
        class: Id,
        protocol: &'n [u8],
    },
    Qualified(Id, Qualifiers),
    Tagged(Id, &'n [u8]),
    Pointer(Id),
    Reference {
        to: Id,
        rvalue: bool,
    },
    MemberPointer {
        class: Id,
        member: Id,
    },
    Array {
        element: Id,
        length: Option<Id>,
    },
    /// A function, or a declaration, by its halves.
    Split(Vec<Piece<'n>>, Vec<Piece<'n>>),
    /// A template parameter whose arguments come later in the name.
    Forward {
        index: usize,
        argument: Option<Id>,
    },
    /// The argument of a parameter pack, of which each turn of an expansion prints one element.
    Pack(Box<[Id]>),
    Expansion(Id),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub(super) is_const: bool,
    pub(super) is_volatile: bool,
    pub(super) is_restrict: bool,
}

impl Qualifiers {
    pub(super) fn is_empty(self) -> bool {
        self == Qualifiers::default()
    }

    pub(super) fn words<'n>(self) -> impl Iterator<Item = &'n [u8]> {
        let all: [(bool, &'n [u8]); 3] =
            [(self.is_const, b" const"), (self.is_volatile, b" volatile"), (self.is_restrict, b" restrict")];
        all.into_iter().filter_map(|(is_there, word)| is_there.then_some(word))
    }
}

#[derive(Debug)]
pub(super) struct Node<'n> {
    pub(super) kind: Kind<'n>,
    pub(super) precedence: Precedence,
    pub(super) shape: Shape,
}

#[derive(Debug, Default)]
pub(super) struct Tree<'n> {
    nodes: Vec<Node<'n>>,
}

impl<'n> Tree<'n> {
    pub(super) fn get(&self, id: Id) -> &Node<'n> {
        &self.nodes[id.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn kind(&self, id: Id) -> &Kind<'n> {
        &self.get(id).kind
    }

    /// Gives a forward reference the argument that has been read by now.
    pub(super) fn resolve(&mut self, id: Id, found: Id) {
        if let Kind::Forward { argument, .. } = &mut self.nodes[id.index()].kind {
            *argument = Some(found);
        }
    }

    /// Adds a type or a name.
    pub(super) fn add(&mut self, kind: Kind<'n>) -> Id {
        self.expression(kind, Precedence::Primary)
    }

    pub(super) fn name(&mut self, text: &'n [u8]) -> Id {
        self.add(Kind::Name(text))
    }

    pub(super) fn pieces<const N: usize>(&mut self, pieces: [Piece<'n>; N]) -> Id {
        self.add(Kind::Pieces(pieces.into()))
    }

    pub(super) fn function(&mut self, left: Vec<Piece<'n>>, right: Vec<Piece<'n>>) -> Id {
        self.push(Kind::Split(left, right), Precedence::Primary, Shape::FUNCTION)
    }

    /// Adds an expression.
    pub(super) fn expression(&mut self, kind: Kind<'n>, precedence: Precedence) -> Id {
        let shape = self.shape(&kind);
        self.push(kind, precedence, shape)
    }

    fn push(&mut self, kind: Kind<'n>, precedence: Precedence, shape: Shape) -> Id {
        // A name has fewer nodes than bytes times a small number, and names are far smaller than 4 GB.
        let id = Id(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { kind, precedence, shape });
        id
    }

    fn shape(&self, kind: &Kind<'n>) -> Shape {
        let of = |id: Id| self.get(id).shape;
        match kind {
            Kind::Array { .. } => Shape::ARRAY,
            Kind::Split(..) => Shape::SPLIT,
            Kind::Forward { .. } => Shape::UNKNOWN,
            Kind::Qualified(child, _) | Kind::Tagged(child, _) => of(*child),
            Kind::Pointer(to) | Kind::Reference { to, .. } | Kind::MemberPointer { member: to, .. } => {
                Shape([of(*to).get(Property::Right), Answer::No, Answer::No])
            }
            Kind::Pack(elements) => {
                let any = |property| elements.iter().any(|element| of(*element).get(property) != Answer::No);
                let answer = |property| if any(property) { Answer::Unknown } else { Answer::No };
                Shape([Property::Right, Property::Array, Property::Function].map(answer))
            }
            _ => Shape::PLAIN,
        }
    }
}
