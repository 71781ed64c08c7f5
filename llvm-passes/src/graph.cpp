// What a cut program needs of LLVM and LLVM-C does not offer: who refers to whom in a module, and merging of
// chosen definitions, loading only their bodies.

#include "llvm-c/Core.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Linker/IRMover.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <string>
#include <vector>

using namespace llvm;

namespace {

// Mirrored in sys.rs.
struct RawGlobal {
  const char *name;
  size_t name_length;
  // Bytes of a small local constant with its type, by which equal ones are found; null for all others.
  const char *content;
  size_t content_length;
  uint64_t size;
  uint32_t address_space;
  uint32_t linkage;
  uint32_t instructions;
  uint8_t is_function;
  uint8_t is_definition;
  uint8_t is_kernel;
  uint8_t is_constant;
  uint8_t address_matters;
  uint8_t is_retained;
  uint8_t is_intrinsic;
};

using Visit = void (*)(void *, const RawGlobal *);
using Refer = void (*)(void *, uint32_t from, uint32_t to, uint8_t called);

using Numbers = DenseMap<const GlobalValue *, uint32_t>;

// Functions, then variables, in the module's order: the numbers by which a worker finds them again.
std::vector<GlobalValue *> numbered(Module &module) {
  std::vector<GlobalValue *> all;
  for (Function &function : module)
    all.push_back(&function);
  for (GlobalVariable &variable : module.globals())
    all.push_back(&variable);
  return all;
}

// Whether the program can tell the variable from an equal copy of it, or can change it.
bool addressMatters(const GlobalVariable &variable) {
  if (!variable.isConstant())
    return true;
  if (variable.hasGlobalUnnamedAddr())
    return false;
  SmallVector<const Value *, 16> open{&variable};
  SmallPtrSet<const Value *, 16> seen;
  while (!open.empty()) {
    const Value *value = open.pop_back_val();
    for (const Use &use : value->uses()) {
      const User *user = use.getUser();
      if (isa<LoadInst>(user))
        continue;
      if (const auto *transfer = dyn_cast<MemTransferInst>(user)) {
        if (&transfer->getArgOperandUse(1) == &use)
          continue;
        return true;
      }
      const bool passes = isa<GEPOperator>(user) || isa<BitCastOperator>(user) || isa<AddrSpaceCastOperator>(user) ||
                          isa<PHINode>(user) || isa<SelectInst>(user);
      if (!passes)
        return true;
      if (seen.insert(user).second)
        open.push_back(user);
    }
  }
  return false;
}

// The globals behind a constant, through expressions and aggregates.
void globalsBehind(const Constant *constant, SmallPtrSetImpl<const Constant *> &seen,
                   SmallVectorImpl<const GlobalValue *> &found) {
  if (const auto *global = dyn_cast<GlobalValue>(constant)) {
    found.push_back(global);
    return;
  }
  if (isa<ConstantData>(constant) || !seen.insert(constant).second)
    return;
  for (const Use &operand : constant->operands())
    if (const auto *inner = dyn_cast<Constant>(operand))
      globalsBehind(inner, seen, found);
}

struct References {
  uint32_t from;
  const Numbers &numbers;
  void *sink;
  Refer refer;
  // 1: seen by address, 2: seen as callee.
  DenseMap<uint32_t, uint8_t> seen;

  References(uint32_t from, const Numbers &numbers, void *sink, Refer refer)
      : from(from), numbers(numbers), sink(sink), refer(refer) {}

  void add(const GlobalValue *global, bool called) {
    auto number = numbers.find(global);
    if (number == numbers.end())
      return;
    uint8_t bit = called ? 2 : 1;
    uint8_t &bits = seen[number->second];
    if (bits & bit)
      return;
    bits |= bit;
    refer(sink, from, number->second, called);
  }

  void addBehind(const Constant *constant) {
    SmallPtrSet<const Constant *, 8> visited;
    SmallVector<const GlobalValue *, 4> found;
    globalsBehind(constant, visited, found);
    for (const GlobalValue *global : found)
      add(global, false);
  }

  void addInstruction(const Instruction &instruction) {
    const auto *call = dyn_cast<CallBase>(&instruction);
    for (const Use &operand : instruction.operands()) {
      const auto *constant = dyn_cast<Constant>(operand);
      if (!constant || isa<ConstantData>(constant))
        continue;
      const auto *function = dyn_cast<Function>(constant);
      if (call && function && call->isCallee(&operand))
        add(function, true);
      else
        addBehind(constant);
    }
  }
};

uint32_t referencesOf(const Function &function, References &references) {
  uint32_t instructions = 0;
  for (const Use &operand : function.operands())
    if (const auto *constant = dyn_cast<Constant>(operand))
      references.addBehind(constant);
  for (const BasicBlock &block : function)
    for (const Instruction &instruction : block) {
      ++instructions;
      references.addInstruction(instruction);
    }
  return instructions;
}

// Whether equal text means equal content: not where it names others, which may be local.
bool isPlain(const GlobalVariable &variable) {
  SmallPtrSet<const Constant *, 8> visited;
  SmallVector<const GlobalValue *, 4> found;
  globalsBehind(variable.getInitializer(), visited, found);
  return found.empty();
}

std::string contentOf(const GlobalVariable &variable) {
  std::string text;
  raw_string_ostream stream(text);
  variable.getInitializer()->print(stream);
  stream << " align " << variable.getAlign().valueOrOne().value();
  return text;
}

} // namespace

// Tells all functions and variables of a module, in order, and then who refers to whom, by number.
// The text says why the module can only be compiled whole; null: it can be cut. It is a literal.
extern "C" const char *fatlink_graph(LLVMModuleRef raw, void *sink, Visit visit, Refer refer) {
  Module &module = *unwrap(raw);
  Numbers numbers;
  std::vector<GlobalValue *> all = numbered(module);
  for (uint32_t index = 0; index < all.size(); ++index)
    numbers[all[index]] = index;
  SmallVector<GlobalValue *, 16> used;
  collectUsedGlobalVariables(module, used, false);
  collectUsedGlobalVariables(module, used, true);
  SmallPtrSet<const GlobalValue *, 16> retained(used.begin(), used.end());

  std::vector<uint32_t> instructions(all.size());
  std::vector<std::pair<uint32_t, std::pair<uint32_t, bool>>> edges;
  auto record = [](void *list, uint32_t from, uint32_t to, uint8_t called) {
    static_cast<decltype(edges) *>(list)->push_back({from, {to, called != 0}});
  };
  const char *whole = nullptr;
  for (uint32_t index = 0; index < all.size(); ++index) {
    References references(index, numbers, &edges, record);
    if (const auto *function = dyn_cast<Function>(all[index])) {
      instructions[index] = referencesOf(*function, references);
      continue;
    }
    const auto &variable = *cast<GlobalVariable>(all[index]);
    const bool list = variable.hasAppendingLinkage();
    if (list && variable.getName() != "llvm.used" && variable.getName() != "llvm.compiler.used")
      whole = "it has constructors, destructors or other lists of the linker";
    if (variable.hasCommonLinkage())
      whole = "it has common variables";
    if (!list && variable.hasInitializer())
      references.addBehind(variable.getInitializer());
  }
  if (!module.getModuleInlineAsm().empty())
    whole = "it has assembly outside functions";
  if (!module.alias_empty() || !module.ifunc_empty())
    whole = "it has aliases";

  const DataLayout &layout = module.getDataLayout();
  for (uint32_t index = 0; index < all.size(); ++index) {
    const GlobalValue &global = *all[index];
    RawGlobal told{};
    StringRef name = global.getName();
    told.name = name.data();
    told.name_length = name.size();
    told.address_space = global.getAddressSpace();
    told.linkage = LLVMGetLinkage(wrap(&global));
    told.instructions = instructions[index];
    told.is_definition = !global.isDeclaration();
    told.is_retained = retained.count(&global);
    std::string content;
    if (const auto *function = dyn_cast<Function>(&global)) {
      told.is_function = 1;
      told.is_kernel = function->getCallingConv() == CallingConv::PTX_Kernel;
      told.is_intrinsic = function->isIntrinsic();
      // Whoever takes its address may compare it, so this question is for variables.
      told.address_matters = 1;
    } else {
      const auto &variable = *cast<GlobalVariable>(&global);
      told.is_intrinsic = name.starts_with("llvm.");
      told.is_constant = variable.isConstant();
      told.size = variable.getValueType()->isSized() ? layout.getTypeAllocSize(variable.getValueType()).getFixedValue() : 0;
      told.address_matters = addressMatters(variable);
      if (variable.hasLocalLinkage() && variable.hasInitializer() && !told.address_matters &&
          variable.getAddressSpace() == 4 && isPlain(variable)) {
        content = contentOf(variable);
        told.content = content.data();
        told.content_length = content.size();
      }
    }
    visit(sink, &told);
  }
  for (const auto &edge : edges)
    refer(sink, edge.first, edge.second.first, edge.second.second);
  return whole;
}

// What happens to a global of a unit that gives something to a partition: `extract::How`.
enum How : uint8_t { Copy = 0, Available = 1, Declaration = 2, Folded = 3, Owned = 4 };

// Mirrored in sys.rs.
struct RawTake {
  uint32_t number;
  uint8_t how;
  // Null: it keeps its name.
  const char *name;
};

namespace {

void declare(GlobalValue &global) {
  if (auto *function = dyn_cast<Function>(&global)) {
    function->deleteBody();
    function->setComdat(nullptr);
  } else {
    auto &variable = *cast<GlobalVariable>(&global);
    variable.setInitializer(nullptr);
    variable.setComdat(nullptr);
  }
  global.setLinkage(GlobalValue::ExternalLinkage);
}

GlobalValue::LinkageTypes owned(const GlobalValue &global) {
  if (global.hasLocalLinkage())
    return GlobalValue::ExternalLinkage;
  // What nobody here uses must stay for the others.
  if (global.hasLinkOnceODRLinkage())
    return GlobalValue::WeakODRLinkage;
  return global.hasLinkOnceLinkage() ? GlobalValue::WeakAnyLinkage : global.getLinkage();
}

void prepare(GlobalValue &global, const RawTake &take) {
  if (take.how == Declaration)
    declare(global);
  else if (auto *object = dyn_cast<GlobalObject>(&global))
    object->setComdat(nullptr);
  if (take.how == Available)
    global.setLinkage(GlobalValue::AvailableExternallyLinkage);
  else if (take.how == Folded)
    global.setLinkage(GlobalValue::WeakODRLinkage);
  else if (take.how == Owned)
    global.setLinkage(owned(global));
  if (take.name)
    global.setName(take.name);
  if (take.how != Copy) {
    global.setVisibility(GlobalValue::DefaultVisibility);
    global.setDSOLocal(false);
  }
}

} // namespace

extern "C" void fatlink_delete_body(LLVMValueRef function) { declare(*unwrap<Function>(function)); }

extern "C" void *fatlink_mover_new(LLVMModuleRef destination) { return new IRMover(*unwrap(destination)); }

extern "C" void fatlink_mover_delete(void *mover) { delete static_cast<IRMover *>(mover); }

// Moves the chosen definitions of `source`, which is consumed, into the mover's module; of everything else only
// what is referred to arrives, as a declaration. The text, to be freed with LLVMDisposeMessage, says why that
// failed; null: it did not.
extern "C" char *fatlink_mover_move(void *mover, LLVMModuleRef source, const RawTake *takes, size_t count) {
  std::unique_ptr<Module> module(unwrap(source));
  std::vector<GlobalValue *> all = numbered(*module);
  std::vector<GlobalValue *> wanted;
  for (size_t index = 0; index < count; ++index) {
    const RawTake &take = takes[index];
    if (take.number >= all.size())
      return LLVMCreateMessage("the unit has changed since its symbols were read");
    prepare(*all[take.number], take);
    if (take.how != Declaration)
      wanted.push_back(all[take.number]);
  }
  auto nothingMore = [](GlobalValue &, IRMover::ValueAdder) {};
  Error error = static_cast<IRMover *>(mover)->move(std::move(module), wanted, nothingMore, false);
  return error ? LLVMCreateMessage(toString(std::move(error)).c_str()) : nullptr;
}

namespace {

// How the names of copies end, of functions that other partitions own.
constexpr char copySuffix[] = ".fatlink.copy";

bool isCallee(const Use &use) {
  const auto *call = dyn_cast<CallBase>(use.getUser());
  return call && call->isCallee(&use);
}

} // namespace

// Gives a partition copies of its own of all functions that partitions share, if their bodies are here, for the
// time of optimization: calls of them may be inlined, also those that turn out to be calls only then. ptxas, too, is
// best told what it calls: of a function that others see, or that it does not see, it knows nothing and saves all
// registers that such a one might use.
extern "C" void fatlink_begin_copies(LLVMModuleRef raw) {
  SmallVector<Function *, 16> shared;
  for (Function &function : *unwrap(raw))
    if (!function.isDeclaration() && !function.hasLocalLinkage() &&
        function.getCallingConv() != CallingConv::PTX_Kernel)
      shared.push_back(&function);
  for (Function *function : shared) {
    Function *copy = function;
    if (!function->hasAvailableExternallyLinkage()) {
      ValueToValueMapTy values;
      copy = CloneFunction(function, values);
      function->replaceUsesWithIf(copy, [](Use &) { return true; });
    }
    copy->setName(function->getName() + copySuffix);
    copy->setLinkage(GlobalValue::InternalLinkage);
    copy->setComdat(nullptr);
  }
}

// What still takes their addresses gets the owner's.
extern "C" void fatlink_end_copies(LLVMModuleRef raw) {
  Module &module = *unwrap(raw);
  SmallVector<Function *, 16> copies;
  for (Function &function : module)
    if (function.getName().ends_with(copySuffix) && any_of(function.uses(), [](const Use &use) { return !isCallee(use); }))
      copies.push_back(&function);
  for (Function *copy : copies) {
    StringRef name = copy->getName().drop_back(sizeof(copySuffix) - 1);
    Function *owner = module.getFunction(name);
    if (!owner) {
      owner = Function::Create(copy->getFunctionType(), GlobalValue::ExternalLinkage, copy->getAddressSpace(), name, &module);
      owner->setAttributes(copy->getAttributes());
      owner->setCallingConv(copy->getCallingConv());
    }
    copy->replaceUsesWithIf(owner, [](Use &use) { return !isCallee(use); });
  }
}
