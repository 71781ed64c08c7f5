// What code generation for AMD GPUs needs beside LLVM-C. Declared in amdgpu.rs.

#include "llvm-c/Core.h"
#include "llvm-c/TargetMachine.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCExpr.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCSymbol.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetLoweringObjectFile.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

using namespace llvm;

// Passes the name of every declared function that the module calls directly to `visit`.
extern "C" void fatlink_called_declarations(LLVMModuleRef raw, void *visitor,
                                            void (*visit)(void *, const char *, size_t)) {
  for (const Function &function : *unwrap(raw)) {
    const auto isCall = [](const Use &use) {
      const auto *call = dyn_cast<CallBase>(use.getUser());
      return call && call->isCallee(&use);
    };
    if (function.isDeclaration() && !function.isIntrinsic() && any_of(function.uses(), isCall))
      visit(visitor, function.getName().data(), function.getName().size());
  }
}

// Whether instructions of a function use a value, also inside constants.
static bool isUsedIn(const Value &value, const Function &function) {
  SmallPtrSet<const User *, 16> seen;
  SmallVector<const User *, 16> open(value.users());
  while (!open.empty()) {
    const User *user = open.pop_back_val();
    if (const auto *instruction = dyn_cast<Instruction>(user)) {
      if (instruction->getFunction() == &function)
        return true;
    } else if (isa<Constant>(user) && !isa<GlobalValue>(user) && seen.insert(user).second) {
      append_range(open, user->users());
    }
  }
  return false;
}

// Passes the name of every variable in local memory that the function of that name uses to `visit`.
extern "C" void fatlink_local_memory_of(LLVMModuleRef raw, const char *name, size_t length, void *visitor,
                                        void (*visit)(void *, const char *, size_t)) {
  constexpr unsigned localMemory = 3;
  const Module &module = *unwrap(raw);
  const Function *function = module.getFunction(StringRef(name, length));
  if (!function)
    return;
  for (const GlobalVariable &variable : module.globals())
    if (variable.getAddressSpace() == localMemory && isUsedIn(variable, *function))
      visit(visitor, variable.getName().data(), variable.getName().size());
}

// For an unknown processor, LLVM prints a warning and emits code for another one.
extern "C" bool fatlink_is_amd_processor(const char *name, size_t length) {
  Triple triple("amdgcn-amd-amdhsa");
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return false;
  std::unique_ptr<MCSubtargetInfo> info(target->createMCSubtargetInfo(triple, "", ""));
  return info && info->isCPUStringValid(StringRef(name, length));
}

// ld.lld's own LTO emits objects in this form.
extern "C" void fatlink_use_sections(LLVMTargetMachineRef raw) {
  auto *machine = reinterpret_cast<TargetMachine *>(raw);
  machine->Options.FunctionSections = true;
  machine->Options.DataSections = true;
}

// Since LLVM 23 the symbols with the registers of a kernel are temporary, which objects leave out unless relocations use them. Code generation
// finds the symbols by name, so they are marked before it defines them.
static void keepResourceSymbols(const Module &module, MCContext &context) {
#if LLVM_VERSION_MAJOR >= 23
  for (const Function &function : module)
    if (function.getCallingConv() == CallingConv::AMDGPU_KERNEL && !function.isDeclaration())
      for (const char *what : {"num_vgpr", "num_agpr", "numbered_sgpr", "has_recursion", "has_dyn_sized_stack"})
        context.getOrCreateSymbol(".L" + function.getName() + "." + what)->setUsedInReloc();
#else
  (void)module, (void)context;
#endif
}

// The value that code generation gave to a symbol, if it did.
static bool readSymbol(MCContext &context, const Twine &name, int64_t &value) {
  const MCSymbol *symbol = context.lookupSymbol(name);
  return symbol && symbol->isVariable() && symbol->getVariableValue()->evaluateAsAbsolute(value);
}

// Vector, accumulation and scalar registers.
using Registers = std::array<int64_t, 3>;

// The symbols that stand for all functions of a module in the expressions of what calls through pointers.
static const char *const ofAllFunctions[] = {"amdgpu.max_num_vgpr", "amdgpu.max_num_agpr", "amdgpu.max_num_sgpr"};

// The registers of a function with all that it calls. Names of local functions are those of local labels.
static bool readRegisters(MCContext &context, const Function &function, Registers &registers) {
  const char *const names[] = {".num_vgpr", ".num_agpr", ".numbered_sgpr"};
  for (size_t index = 0; index < registers.size(); ++index)
    if (!readSymbol(context, function.getName() + names[index], registers[index]) &&
        !readSymbol(context, ".L" + function.getName() + names[index], registers[index]))
      return false;
  return true;
}

// Gives the symbols of all functions other values.
static void assume(MCContext &context, int64_t registers) {
  for (const char *name : ofAllFunctions)
    if (MCSymbol *symbol = context.lookupSymbol(name))
      symbol->setVariableValue(MCConstantExpr::create(registers, context));
}

static bool isKernel(const Function &function) {
  return function.getCallingConv() == CallingConv::AMDGPU_KERNEL && !function.isDeclaration();
}

static bool callsThroughPointers(const Module &module) {
  for (const Function &function : module)
    for (const BasicBlock &block : function)
      for (const Instruction &instruction : block)
        if (const auto *call = dyn_cast<CallBase>(&instruction); call && call->isIndirectCall())
          return true;
  return false;
}

// The registers of a function with all that it calls by name. LLVM's expression for one that calls through pointers leaves out what it calls by
// name, as the symbols of all functions cover that, so the calls are followed here.
static bool readReached(MCContext &context, const Function &start, Registers &registers) {
  SmallPtrSet<const Function *, 16> seen = {&start};
  SmallVector<const Function *, 16> open = {&start};
  registers = {0, 0, 0};
  while (!open.empty()) {
    const Function &function = *open.pop_back_val();
    Registers found;
    if (!readRegisters(context, function, found))
      return false;
    for (size_t index = 0; index < registers.size(); ++index)
      registers[index] = std::max(registers[index], found[index]);
    for (const BasicBlock &block : function)
      for (const Instruction &instruction : block)
        if (const auto *call = dyn_cast<CallBase>(&instruction)) {
          const auto *callee = dyn_cast<Function>(call->getCalledOperand()->stripPointerCastsAndAliases());
          if (callee && !callee->isDeclaration() && seen.insert(callee).second)
            open.push_back(callee);
        }
  }
  return true;
}

namespace {

// A kernel whose symbols code generation has defined.
struct Kernel {
  const Function *function;
  bool callsThroughPointers;
  // Without the functions that such calls may reach; unset for other kernels.
  Registers registers;
};

} // namespace

// Replaces the registers of all functions by those of the functions that may be called through a pointer: their address is taken, or other
// modules may take it. Passes each kernel to `visit`: one that calls through pointers with its registers without those functions, others with a
// null pointer. Does neither if code generation left out a symbol.
static void narrow(const Module &module, MCContext &context, Registers &functions, void *visitor,
                   void (*visit)(void *, const char *, size_t, const int64_t *)) {
  Registers most = {0, 0, 0}, found;
  SmallVector<Kernel, 16> kernels;
  constexpr int64_t moreThanAny = 4096;
  assume(context, moreThanAny);
  for (const Function &function : module)
    if (isKernel(function)) {
      if (!readRegisters(context, function, found))
        return;
      kernels.push_back({&function, is_contained(found, moreThanAny), {}});
    }
  assume(context, 0);
  for (const Function &function : module) {
    if (function.isDeclaration() || isKernel(function) || (function.hasLocalLinkage() && !function.hasAddressTaken()))
      continue;
    if (!readReached(context, function, found))
      return;
    for (size_t index = 0; index < most.size(); ++index)
      most[index] = std::max(most[index], found[index]);
  }
  for (Kernel &kernel : kernels)
    if (kernel.callsThroughPointers && !readReached(context, *kernel.function, kernel.registers))
      return;
  for (const Kernel &kernel : kernels) {
    const StringRef name = kernel.function->getName();
    visit(visitor, name.data(), name.size(), kernel.callsThroughPointers ? kernel.registers.data() : nullptr);
  }
  functions = most;
}

// Emits an object for `read`, and stores the most vector, accumulation and scalar registers that a function needs which may be called through
// a pointer. LLVM computes them for kernels that call unknown functions, in symbols that no object has; they live in the context of the
// assembler, which is therefore one that outlives the passes. Passes the kernels to `visit`, those that do so with their registers without
// those functions. The object of a part of a program, and of one that calls through pointers, has the symbols with the registers of its kernels.
// Returns a message for LLVMDisposeMessage, or null on success.
extern "C" char *fatlink_emit_amd_object(LLVMModuleRef rawModule, LLVMTargetMachineRef rawMachine, bool isPart,
                                         int64_t registers[3], void *reader, void (*read)(void *, const char *, size_t),
                                         void *visitor, void (*visit)(void *, const char *, size_t, const int64_t *)) {
  Module &module = *unwrap(rawModule);
  TargetMachine &machine = *reinterpret_cast<TargetMachine *>(rawMachine);
  module.setDataLayout(machine.createDataLayout());
  MCContext context(machine.getTargetTriple(), machine.getMCAsmInfo(), machine.getMCRegisterInfo(),
                    machine.getMCSubtargetInfo(), nullptr,
#if LLVM_VERSION_MAJOR < 23
                    &machine.Options.MCOptions,
#endif
                    false);
  context.setObjectFileInfo(machine.getObjFileLowering());
  if (isPart || callsThroughPointers(module))
    keepResourceSymbols(module, context);
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager passes;
  auto *info = new MachineModuleInfoWrapperPass(&machine, &context);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::ObjectFile, true, info))
    return LLVMCreateMessage("this target has no object files");
  passes.run(module);
  Registers functions;
  for (size_t index = 0; index < functions.size(); ++index)
    if (!readSymbol(context, ofAllFunctions[index], functions[index]))
      return LLVMCreateMessage("LLVM does not tell the registers of functions");
  narrow(module, context, functions, visitor, visit);
  std::copy(functions.begin(), functions.end(), registers);
  read(reader, object.data(), object.size());
  return nullptr;
}
