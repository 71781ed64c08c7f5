//! The names of the attributes of cubins (`.nv.info`, `.nv.compat`), as cuobjdump prints them.

/// Attributes of a kernel whose bytes name no symbol: numbers, and offsets of instructions in its code.
const NUMBERS: [(u8, &str); 33] = [
    (0x04, "CTAIDZ_USED"),
    (0x05, "MAX_THREADS"),
    (0x10, "REQNTID"),
    (0x17, "KPARAM_INFO"),
    (0x18, "SMEM_PARAM_SIZE"),
    (0x1c, "EXIT_INSTR_OFFSETS"),
    (0x1d, "S2RCTAID_INSTR_OFFSETS"),
    (0x1e, "CRS_STACK_SIZE"),
    (0x25, "LD_CACHEMOD_INSTR_OFFSETS"),
    (0x26, "LOAD_CACHE_REQUEST"),
    (0x27, "ATOM_SYS_INSTR_OFFSETS"),
    (0x28, "COOP_GROUP_INSTR_OFFSETS"),
    (0x29, "COOP_GROUP_MASK_REGIDS"),
    (0x2d, "ATOMF16_EMUL_INSTR_OFFSETS"),
    (0x2e, "ATOM16_EMUL_INSTR_REG_MAP"),
    (0x30, "SW2393858_WAR"),
    (0x31, "INT_WARP_WIDE_INSTR_OFFSETS"),
    (0x33, "STATISTICS"),
    (0x34, "INDIRECT_BRANCH_TARGETS"),
    (0x35, "SW2861232_WAR"),
    (0x36, "SW_WAR"),
    (0x37, "CUDA_API_VERSION"),
    (0x39, "MBARRIER_INSTR_OFFSETS"),
    (0x3a, "COROUTINE_RESUME_ID_OFFSETS"),
    (0x3d, "CTA_PER_CLUSTER"),
    (0x3f, "MAX_CLUSTER_RANK"),
    (0x40, "INSTR_REG_MAP"),
    (0x44, "UNUSED_LOAD_BYTE_OFFSET"),
    (0x45, "KPARAM_INFO_V2"),
    (0x46, "SYSCALL_OFFSETS"),
    (0x47, "SW_WAR_MEMBAR_SYS_INSTR_OFFSETS"),
    (0x57, "STACK_CANARY_TRAP_OFFSETS"),
    (0x59, "LOCAL_CTA_ASYNC_STORE_OFFSETS"),
];

/// Attributes of a kernel or cubin whose bytes name symbols.
const SYMBOLS: [(u8, &str); 6] = [
    (0x0a, "PARAM_CBANK"),
    (0x0f, "EXTERNS"),
    (0x11, "FRAME_SIZE"),
    (0x12, "MIN_STACK_SIZE"),
    (0x23, "MAX_STACK_SIZE"),
    (0x2f, "REGCOUNT"),
];

/// Attributes of `.nv.compat`.
const COMPAT: [(u8, &str); 6] = [
    (0x02, "ISA_CLASS"),
    (0x03, "INST_TENSORMAP_V1"),
    (0x05, "INST_TCGEN05_MMA"),
    (0x06, "ENABLE_OPPORTUNISTIC_FINALIZATION"),
    (0x09, "CUDA_ACCELERATOR_TARGET"),
    (0x0b, "CAN_FASTPATH_FINALIZE"),
];

/// Whether the bytes of an attribute of `.nv.info` are known to name no symbol.
pub(super) fn is_number(attribute: u8) -> bool {
    name_in(&NUMBERS, attribute).is_some()
}

/// The name of an attribute of `.nv.info`.
pub(super) fn info_name(attribute: u8) -> Option<&'static str> {
    name_in(&NUMBERS, attribute).or_else(|| name_in(&SYMBOLS, attribute))
}

/// The name of an attribute of `.nv.compat`.
pub(super) fn compat_name(attribute: u8) -> Option<&'static str> {
    name_in(&COMPAT, attribute)
}

fn name_in(names: &[(u8, &'static str)], attribute: u8) -> Option<&'static str> {
    names.iter().find(|(number, _)| *number == attribute).map(|(_, name)| *name)
}
