// Queries and changes of whole modules that LLVM-C does not offer. Declared in modules.rs.

#include "llvm-c/Core.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/AutoUpgrade.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

// LLVM-C can open a module without its function bodies, but not load them later. Returns a message for LLVMDisposeMessage, or
// null on success.
extern "C" char *fatlink_load_bodies(LLVMModuleRef module) {
  Error error = unwrap(module)->materializeAll();
  return error ? LLVMCreateMessage(toString(std::move(error)).c_str()) : nullptr;
}

// Before LLVM 21 clang marked NVIDIA's kernels by metadata instead of their calling convention. The reader upgrades that only when it loads
// all bodies.
extern "C" void fatlink_upgrade_kernels(LLVMModuleRef module) {
  llvm::UpgradeNVVMAnnotations(*llvm::unwrap(module));
}

// Has units that are read in this context share the types of debug information that they declare alike, as LLVM's LTO does.
extern "C" void fatlink_unique_debug_types(LLVMContextRef context) {
  unwrap(context)->enableDebugTypeODRUniquing();
}

// Passes the names in llvm.used and llvm.compiler.used on.
extern "C" void fatlink_visit_used(LLVMModuleRef module, void *reader,
                                   void (*read)(void *, const char *, size_t)) {
  SmallVector<GlobalValue *, 16> used;
  collectUsedGlobalVariables(*unwrap(module), used, /*CompilerUsed=*/false);
  collectUsedGlobalVariables(*unwrap(module), used, /*CompilerUsed=*/true);
  for (GlobalValue *value : used)
    read(reader, value->getName().data(), value->getName().size());
}

// Returns 0 for none, 1 for lines alone, 2 for full debug information.
extern "C" int fatlink_debug_information(LLVMModuleRef module) {
  int found = 0;
  for (DICompileUnit *unit : unwrap(module)->debug_compile_units()) {
    if (unit->getEmissionKind() == DICompileUnit::FullDebug)
      return 2;
    found = 1;
  }
  return found;
}

// LLVMAddModuleFlag would add a second flag of that name.
extern "C" void fatlink_set_module_flag(LLVMModuleRef raw, const char *name, size_t length, uint32_t value) {
  Module &module = *unwrap(raw);
  Metadata *number = ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(module.getContext()), value));
  module.setModuleFlag(Module::Override, StringRef(name, length), number);
}

// Removes clang's list of what only host code of the unit uses and another unit defines. It is there to make archive members
// that define them part of the link, for which the declarations are enough. In code it would be a reference to a kernel as if that
// were a function, which device linkers reject.
extern "C" void fatlink_drop_host_uses(LLVMModuleRef raw) {
  Module &module = *unwrap(raw);
  GlobalVariable *list = module.getGlobalVariable("__clang_gpu_used_external", true);
  if (!list || !list->hasLocalLinkage())
    return;
  removeFromUsedLists(module, [list](Constant *used) { return used->stripPointerCasts() == list; });
  list->removeDeadConstantUsers();
  if (list->use_empty())
    list->eraseFromParent();
}

// Passes the module as bitcode to `read`, with the order of uses. Passes may depend on it, and LLVM-C does not write it.
extern "C" void fatlink_write_with_uses(LLVMModuleRef module, void *reader,
                                        void (*read)(void *, const char *, size_t)) {
  SmallVector<char, 0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(*unwrap(module), stream, /*ShouldPreserveUseListOrder=*/true);
  read(reader, bitcode.data(), bitcode.size());
}
