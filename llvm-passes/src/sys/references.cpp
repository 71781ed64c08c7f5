// Reads which functions and variables of a module refer to which. Declared in references.rs.

#include "declared_size.h"
#include "numbered.h"

#include "llvm-c/Core.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstddef>
#include <string>
#include <vector>

using namespace llvm;

namespace {

// A function or variable; mirrored in references.rs.
struct RawGlobal {
  const char *name;
  size_t name_length;
  // The content of a small local constant with its type, by which equal ones are found; null for all other globals.
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

static_assert(sizeof(RawGlobal) == 64 && alignof(RawGlobal) == 8);
static_assert(offsetof(RawGlobal, name) == 0);
static_assert(offsetof(RawGlobal, name_length) == 8);
static_assert(offsetof(RawGlobal, content) == 16);
static_assert(offsetof(RawGlobal, content_length) == 24);
static_assert(offsetof(RawGlobal, size) == 32);
static_assert(offsetof(RawGlobal, address_space) == 40);
static_assert(offsetof(RawGlobal, linkage) == 44);
static_assert(offsetof(RawGlobal, instructions) == 48);
static_assert(offsetof(RawGlobal, is_function) == 52);
static_assert(offsetof(RawGlobal, is_definition) == 53);
static_assert(offsetof(RawGlobal, is_kernel) == 54);
static_assert(offsetof(RawGlobal, is_constant) == 55);
static_assert(offsetof(RawGlobal, address_matters) == 56);
static_assert(offsetof(RawGlobal, is_retained) == 57);
static_assert(offsetof(RawGlobal, is_intrinsic) == 58);

using VisitGlobal = void (*)(void *, const RawGlobal *);
using VisitReference = void (*)(void *, uint32_t from, uint32_t to, uint8_t called);

// Whether the program writes the variable, or can distinguish it from an equal copy.
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

// Finds the globals that a constant refers to, through expressions and aggregates.
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

// Whether a call passes functions to OpenMP's device runtime, which calls them before the kernel that is running ends: the
// bodies of parallel regions and the parts of reductions. Their addresses mean nothing to another kernel.
bool runsWhatItGets(const CallBase &call) {
  const Function *callee = call.getCalledFunction();
  return callee && callee->getName().starts_with("__kmpc_");
}

struct Reference {
  uint32_t from;
  uint32_t to;
  bool called;
};

// Collects what one global refers to, each target at most once by call and once by address.
class ReferenceCollector {
public:
  ReferenceCollector(uint32_t from, const DenseMap<const GlobalValue *, uint32_t> &indices,
                     std::vector<Reference> &references)
      : from(from), indices(indices), references(references) {}

  void addConstant(const Constant *constant) {
    SmallPtrSet<const Constant *, 8> visited;
    SmallVector<const GlobalValue *, 4> found;
    globalsBehind(constant, visited, found);
    for (const GlobalValue *global : found)
      add(global, false);
  }

  // Returns the number of instructions.
  uint32_t addFunction(const Function &function) {
    uint32_t instructions = 0;
    for (const Use &operand : function.operands())
      if (const auto *constant = dyn_cast<Constant>(operand))
        addConstant(constant);
    for (const BasicBlock &block : function)
      for (const Instruction &instruction : block) {
        ++instructions;
        addInstruction(instruction);
      }
    return instructions;
  }

private:
  void add(const GlobalValue *global, bool called) {
    auto index = indices.find(global);
    if (index == indices.end())
      return;
    uint8_t bit = called ? 2 : 1;
    uint8_t &bits = seen[index->second];
    if (bits & bit)
      return;
    bits |= bit;
    references.push_back({from, index->second, called});
  }

  void addInstruction(const Instruction &instruction) {
    const auto *call = dyn_cast<CallBase>(&instruction);
    for (const Use &operand : instruction.operands()) {
      const auto *constant = dyn_cast<Constant>(operand);
      if (!constant || isa<ConstantData>(constant))
        continue;
      const auto *function = dyn_cast<Function>(constant);
      if (call && function && (call->isCallee(&operand) || runsWhatItGets(*call)))
        add(function, true);
      else
        addConstant(constant);
    }
  }

  uint32_t from;
  const DenseMap<const GlobalValue *, uint32_t> &indices;
  std::vector<Reference> &references;
  // By target; bit 1: seen by address, bit 2: seen as callee.
  DenseMap<uint32_t, uint8_t> seen;
};

// Whether equal text means equal content. It does not where the constant names other globals, which may be local.
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

// Why the module cannot be partitioned, as a literal; null if it can.
const char *reasonForMonolithic(const Module &module) {
  if (!module.alias_empty() || !module.ifunc_empty())
    return "it has aliases";
  if (!module.getModuleInlineAsm().empty())
    return "it has assembly outside functions";
  const char *reason = nullptr;
  for (const GlobalVariable &variable : module.globals()) {
    const bool used = variable.getName() == "llvm.used" || variable.getName() == "llvm.compiler.used";
    // Clang leaves an empty list of constructors in the code of OpenMP's units.
    const bool empty = variable.hasInitializer() && variable.getInitializer()->isNullValue();
    if (variable.hasAppendingLinkage() && !used && !empty)
      reason = "it has constructors, destructors or other lists of the linker";
    if (variable.hasCommonLinkage())
      reason = "it has common variables";
  }
  return reason;
}

void describeFunction(const Function &function, RawGlobal &raw) {
  raw.is_function = 1;
  const auto convention = function.getCallingConv();
  raw.is_kernel = convention == CallingConv::PTX_Kernel || convention == CallingConv::AMDGPU_KERNEL;
  raw.is_intrinsic = function.isIntrinsic();
  // Any code that takes the address of a function may compare it; only variables are analyzed.
  raw.address_matters = 1;
}

// `content` holds the text that `raw` points to.
void describeVariable(const GlobalVariable &variable, std::string &content, RawGlobal &raw) {
  raw.is_intrinsic = variable.getName().starts_with("llvm.");
  // The runtime may write another value over the initializer of a variable that it knows, before any kernel runs.
  raw.is_constant = variable.isConstant() && !variable.isExternallyInitialized();
  raw.size = fatlink::declaredSize(variable);
  raw.address_matters = addressMatters(variable);
  constexpr unsigned constantMemory = 4;
  if (variable.hasLocalLinkage() && variable.hasInitializer() && !raw.address_matters &&
      variable.getAddressSpace() == constantMemory && isPlain(variable)) {
    content = contentOf(variable);
    raw.content = content.data();
    raw.content_length = content.size();
  }
}

} // namespace

// Passes all functions and variables of a module to `visitGlobal`, in order, and then every reference between them, by index,
// to `visitReference`. Returns why the module cannot be partitioned, as a literal, or null.
extern "C" const char *fatlink_references(LLVMModuleRef raw, void *visitor, VisitGlobal visitGlobal,
                                          VisitReference visitReference) {
  Module &module = *unwrap(raw);
  std::vector<GlobalValue *> all = fatlink::numberedGlobals(module);
  DenseMap<const GlobalValue *, uint32_t> indices;
  for (uint32_t index = 0; index < all.size(); ++index)
    indices[all[index]] = index;

  // All references are collected first: the instruction counts belong to the globals.
  std::vector<Reference> references;
  std::vector<uint32_t> instructions(all.size());
  for (uint32_t index = 0; index < all.size(); ++index) {
    ReferenceCollector collector(index, indices, references);
    if (const auto *function = dyn_cast<Function>(all[index]))
      instructions[index] = collector.addFunction(*function);
    else if (const auto &variable = *cast<GlobalVariable>(all[index]);
             !variable.hasAppendingLinkage() && variable.hasInitializer())
      collector.addConstant(variable.getInitializer());
  }

  SmallVector<GlobalValue *, 16> used;
  collectUsedGlobalVariables(module, used, false);
  collectUsedGlobalVariables(module, used, true);
  SmallPtrSet<const GlobalValue *, 16> retained(used.begin(), used.end());
  for (uint32_t index = 0; index < all.size(); ++index) {
    const GlobalValue &global = *all[index];
    RawGlobal described{};
    std::string content;
    described.name = global.getName().data();
    described.name_length = global.getName().size();
    described.address_space = global.getAddressSpace();
    described.linkage = LLVMGetLinkage(wrap(&global));
    described.instructions = instructions[index];
    described.is_definition = !global.isDeclaration();
    described.is_retained = retained.count(&global);
    if (const auto *function = dyn_cast<Function>(&global))
      describeFunction(*function, described);
    else
      describeVariable(*cast<GlobalVariable>(&global), content, described);
    visitGlobal(visitor, &described);
  }
  for (const Reference &reference : references)
    visitReference(visitor, reference.from, reference.to, reference.called);
  return reasonForMonolithic(module);
}
