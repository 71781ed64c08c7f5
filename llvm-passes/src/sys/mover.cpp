// Moves chosen definitions of a module into another one, loading only their bodies. Declared in mover.rs.

#include "numbered.h"

#include "llvm-c/Core.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/IRMover.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <memory>
#include <vector>

using namespace llvm;

namespace {

// What happens to a global of a unit: `extract::How`.
enum How : uint8_t { Copy = 0, Available = 1, Declaration = 2, Folded = 3, Owned = 4 };

// Mirrored in mover.rs.
struct RawTake {
  uint32_t index;
  uint8_t how;
  // Null: the global keeps its name.
  const char *name;
};

static_assert(sizeof(RawTake) == 16 && alignof(RawTake) == 8);
static_assert(offsetof(RawTake, index) == 0);
static_assert(offsetof(RawTake, how) == 4);
static_assert(offsetof(RawTake, name) == 8);

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
  // Other partitions refer to it even if nothing here does.
  if (global.hasLinkOnceODRLinkage())
    return GlobalValue::WeakODRLinkage;
  return global.hasLinkOnceLinkage() ? GlobalValue::WeakAnyLinkage : global.getLinkage();
}

// The module that definitions move into, and what becomes of their visibility.
struct MoverState {
  IRMover mover;
  // Names that partitions share are visible to them alone, and all others keep their visibility. Otherwise they are visible to all.
  bool keepsVisibility;
};

void prepare(GlobalValue &global, const RawTake &take, bool keepsVisibility) {
  const bool wasLocal = global.hasLocalLinkage();
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
  if (take.how == Copy)
    return;
  if (!keepsVisibility) {
    global.setVisibility(GlobalValue::DefaultVisibility);
    global.setDSOLocal(false);
  } else if (wasLocal) {
    global.setVisibility(GlobalValue::HiddenVisibility);
  }
}

} // namespace

extern "C" void fatlink_delete_body(LLVMValueRef function) { declare(*unwrap<Function>(function)); }

extern "C" void *fatlink_mover_new(LLVMModuleRef destination, bool keepsVisibility) {
  return new MoverState{IRMover(*unwrap(destination)), keepsVisibility};
}

extern "C" void fatlink_mover_delete(void *mover) { delete static_cast<MoverState *>(mover); }

// Moves the chosen definitions of `source` into the mover's module and consumes `source`. Of all other globals, only those that
// are referenced arrive, as declarations. Returns a message for LLVMDisposeMessage, or null on success.
extern "C" char *fatlink_mover_move(void *mover, LLVMModuleRef source, const RawTake *takes, size_t count) {
  auto &state = *static_cast<MoverState *>(mover);
  std::unique_ptr<Module> module(unwrap(source));
  std::vector<GlobalValue *> all = fatlink::numberedGlobals(*module);
  std::vector<GlobalValue *> moved;
  for (size_t at = 0; at < count; ++at) {
    const RawTake &take = takes[at];
    if (take.index >= all.size())
      return LLVMCreateMessage("the unit has changed since its symbols were read");
    if (take.how != Declaration && all[take.index]->isDeclaration())
      return LLVMCreateMessage(("the unit does not define " + all[take.index]->getName()).str().c_str());
    prepare(*all[take.index], take, state.keepsVisibility);
    if (take.how != Declaration)
      moved.push_back(all[take.index]);
  }
  auto nothingMore = [](GlobalValue &, IRMover::ValueAdder) {};
  Error error = state.mover.move(std::move(module), moved, nothingMore, false);
  return error ? LLVMCreateMessage(toString(std::move(error)).c_str()) : nullptr;
}
