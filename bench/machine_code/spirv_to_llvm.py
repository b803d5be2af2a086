"""From SPIR-V to LLVM IR for AMD's back end: llvm-spirv reads it, and what OpenCL leaves open (address spaces, calling
conventions, work-item functions, mathematics) is filled in for the target."""

import dataclasses
import re

GENERIC, CONSTANT = 4, 2  # address spaces of SPIR: private 0, global 1, constant 2, local 3, generic 4


@dataclasses.dataclass
class Target:
    """What distinguishes a back end."""
    triple: str
    spaces: dict          # address space of SPIR -> that of the target
    kernel_convention: str
    work_items: str       # IR that defines @item_id_<d>, @group_id_<d>, @group_size_<d>, @group_count_<d> and @wait_for_group
    library: dict         # name in OpenCL -> function of the target's mathematical library
    declarations: str     # of these functions


MANGLED = {"f": "float", "d": "double", "l": "i64", "i": "i32", "j": "i32"}

# Functions of OpenCL that LLVM has as intrinsics of the same arguments.
INTRINSICS = {"mad": "fma", "fma": "fma", "sqrt": "sqrt", "fmax": "maxnum", "fmin": "minnum", "fabs": "fabs", "min": "smin",
              "max": "smax", "floor": "floor", "rint": "rint", "trunc": "trunc", "copysign": "copysign"}
SUFFIX = {"float": "f32", "double": "f64", "i64": "i64", "i32": "i32"}


def math_library(symbol):
    """The functions of a vendor's library, and their declarations; symbol(name, kind) is what that library calls them."""
    functions, declarations = {}, ""
    for name in ("exp", "exp2", "log", "log2", "tanh", "erf", "erfc", "pow", "sin", "cos", "log1p", "expm1", "ilogb", "ldexp"):
        for kind in ("float", "double"):
            functions[(name, kind)] = symbol(name, kind)
            more = {"pow": f", {kind}", "ldexp": ", i32"}.get(name, "")
            declarations += f"declare {'i32' if name == 'ilogb' else kind} @{symbol(name, kind)}({kind}{more})\n"
    return functions, declarations


def split_name(mangled):
    """_Z3madfff -> ("mad", ["float", "float", "float"]); None if it is no name of this kind."""
    match = re.fullmatch(r"_Z(\d+)(.+)", mangled)
    if not match:
        return None
    length = int(match.group(1))
    name, kinds = match.group(2)[:length], match.group(2)[length:]
    if not all(kind in MANGLED for kind in kinds):
        return name, None
    return name, [MANGLED[kind] for kind in kinds]


def select_by_dimension(function, name):
    """i64 by the number of the dimension."""
    return (f"define i64 @{function}(i32 %d) alwaysinline convergent {{\n"
            f"  %x = call i64 @{name}_0()\n  %y = call i64 @{name}_1()\n  %z = call i64 @{name}_2()\n"
            "  %is_y = icmp eq i32 %d, 1\n  %is_z = icmp eq i32 %d, 2\n"
            "  %xy = select i1 %is_y, i64 %y, i64 %x\n  %r = select i1 %is_z, i64 %z, i64 %xy\n  ret i64 %r\n}\n")


def floating_class(mangled, kind, condition):
    return (f"define i32 @{mangled}({kind} %x) alwaysinline {{\n  %a = call {kind} @llvm.fabs.{SUFFIX[kind]}({kind} %x)\n"
            f"{condition}  %r = zext i1 %c to i32\n  ret i32 %r\n}}\ndeclare {kind} @llvm.fabs.{SUFFIX[kind]}({kind})\n")


def definition(mangled, target):
    """IR that defines a function of OpenCL for the target; None if it is not known."""
    name, kinds = split_name(mangled) or (None, None)
    ids = {"get_local_id": "item_id", "get_group_id": "group_id", "get_local_size": "group_size", "get_num_groups": "group_count"}
    if name in ids:
        return select_by_dimension(mangled, ids[name])
    if name in ("get_global_id", "get_global_size"):
        steps = {"get_global_id": ("group_id", "item_id"), "get_global_size": ("group_count", None)}[name]
        parts = "".join(
            f"define i64 @{name}_{d}() alwaysinline convergent {{\n  %g = call i64 @{steps[0]}_{d}()\n  %s = call i64 @group_size_{d}()\n"
            + (f"  %i = call i64 @{steps[1]}_{d}()\n" if steps[1] else "  %i = add i64 0, 0\n")
            + "  %p = mul i64 %g, %s\n  %r = add i64 %p, %i\n  ret i64 %r\n}\n" for d in range(3))
        return parts + select_by_dimension(mangled, name)
    if name == "get_global_offset":
        return f"define i64 @{mangled}(i32 %d) alwaysinline {{\n  ret i64 0\n}}\n"
    if name == "barrier":
        return f"define void @{mangled}(i32 %f) alwaysinline convergent {{\n  call void @wait_for_group()\n  ret void\n}}\n"
    if name in ("atomic_add", "atomic_xchg") and mangled.endswith("PU3AS4Vii"):
        step = name.removeprefix("atomic_")
        return (f"define i32 @{mangled}(ptr %p, i32 %x) alwaysinline {{\n  %r = atomicrmw {step} ptr %p, i32 %x monotonic\n  ret i32 %r\n}}\n")
    if kinds is None or not kinds:
        return None
    kind = kinds[0]
    arguments = ", ".join(f"{k} %a{i}" for i, k in enumerate(kinds))
    if name in INTRINSICS:
        function = f"llvm.{INTRINSICS[name]}.{SUFFIX[kind]}"
        return (f"define {kind} @{mangled}({arguments}) alwaysinline {{\n  %r = call {kind} @{function}({arguments})\n  ret {kind} %r\n}}\n"
                f"declare {kind} @{function}({', '.join(kinds)})\n")
    if name == "abs":
        return (f"define {kind} @{mangled}({kind} %x) alwaysinline {{\n  %r = call {kind} @llvm.abs.{SUFFIX[kind]}({kind} %x, i1 false)\n"
                f"  ret {kind} %r\n}}\ndeclare {kind} @llvm.abs.{SUFFIX[kind]}({kind}, i1)\n")
    if kind in ("float", "double") and name in ("isnan", "isinf", "isfinite", "isnormal"):
        infinity = "0x7FF0000000000000"
        smallest = "0x3810000000000000" if kind == "float" else "0x0010000000000000"
        condition = {"isnan": f"  %c = fcmp uno {kind} %x, %x\n", "isinf": f"  %c = fcmp oeq {kind} %a, {infinity}\n",
                     "isfinite": f"  %c = fcmp olt {kind} %a, {infinity}\n",
                     "isnormal": f"  %b = fcmp olt {kind} %a, {infinity}\n  %s = fcmp oge {kind} %a, {smallest}\n  %c = and i1 %b, %s\n"}
        return floating_class(mangled, kind, condition[name])
    if name == "signbit":
        bits = "i32" if kind == "float" else "i64"
        return (f"define i32 @{mangled}({kind} %x) alwaysinline {{\n  %b = bitcast {kind} %x to {bits}\n  %c = icmp slt {bits} %b, 0\n"
                "  %r = zext i1 %c to i32\n  ret i32 %r\n}\n")
    function = target.library.get((name, kind))
    if function is None:
        return None
    result = "i32" if name == "ilogb" else kind
    return f"define {result} @{mangled}({arguments}) alwaysinline {{\n  %r = call {result} @{function}({arguments})\n  ret {result} %r\n}}\n"


def map_spaces(text, spaces):
    """Types, intrinsics and casts with the address spaces of the target."""
    def pointer(match):
        space = spaces[int(match.group(1) or 0)]
        return "ptr" if space == 0 else f"ptr addrspace({space})"

    text = re.sub(r'(?<![%@".\w])ptr\b(?: addrspace\((\d)\))?', pointer, text)
    text = re.sub(r"(= (?:\w+ )*)addrspace\((\d)\)( (?:unnamed_addr )?(?:global|constant))",
                  lambda m: f"{m.group(1)}addrspace({spaces[int(m.group(2))]}){m.group(3)}", text)
    text = re.sub(r"(@llvm\.[\w.]*)", lambda m: re.sub(r"\.p(\d)", lambda p: f".p{spaces[int(p.group(1))]}", m.group(1)), text)
    return re.sub(r"addrspacecast (ptr(?: addrspace\(\d\))?) (\S+) to \1(?=[,\n])", r"bitcast \1 \2 to \1", text)


def arguments_of(signature):
    """The parameters of a definition, split at the commas between them."""
    parts, depth, begin, quoted = [], 0, 0, False
    for i, letter in enumerate(signature):
        quoted ^= letter == '"'
        if quoted:
            continue
        depth += letter in "(<{["
        depth -= letter in ")>}]"
        if letter == "," and depth == 0:
            parts.append(signature[begin:i].strip())
            begin = i + 1
    return parts + [signature[begin:].strip()]


def kernel_with_references(match, private, constant):
    """AMD's kernels get structures by reference to constant memory: a kernel that copies them, and calls what was one."""
    name, arguments = match.group(1), arguments_of(match.group(2))
    inner, outer, body, call = [], [], "", []
    for i, argument in enumerate(arguments):
        place = argument.split()[-1]
        structure = re.search(r"byval\((.+?)\) align (\d+)", argument)
        if structure is None:
            inner.append(argument)
            outer.append(re.sub(r"\S+$", f"%a{i}", argument))
            call.append(re.sub(r"(?:noalias|nocapture|readonly|align \d+|noundef) ?", "", outer[-1]))
            continue
        kind, align = structure.groups()
        inner.append(f"ptr addrspace({private}) align {align} {place}")
        outer.append(f"ptr addrspace({constant}) byref({kind}) align {align} %a{i}")
        body += (f"  %c{i} = alloca {kind}, align {align}, addrspace({private})\n"
                 f"  call void @llvm.memcpy.p{private}.p{constant}.i64(ptr addrspace({private}) align {align} %c{i}, "
                 f"ptr addrspace({constant}) align {align} %a{i}, i64 ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i64), i1 false)\n")
        call.append(f"ptr addrspace({private}) %c{i}")
    return (f'define amdgpu_kernel void @{name}({", ".join(outer)}) "amdgpu-flat-work-group-size"="1,256" {{\n{body}'
            f'  call void @{name}.body({", ".join(call)})\n  ret void\n}}\n'
            f'define internal void @{name}.body({", ".join(inner)}) alwaysinline {{\n')


def zeros_by_memset(text):
    """llvm-spirv fills memory by a copy of zeros in a variable, whose address space AMD's back end does not have."""
    for name in re.findall(r"^(@\S+) = internal global \[\d+ x i8\] zeroinitializer", text, flags=re.MULTILINE):
        text = re.sub(rf"(%\S+) = bitcast ptr {name} to ptr\n(\s+)call void @llvm\.memcpy\.p0\.p0\.i64\((ptr[^,]*), ptr[^,]* \1, "
                      r"(i64 \d+, i1 false\))", r"\1 = bitcast ptr null to ptr\n\2call void @llvm.memset.p0.i64(\3, i8 0, \4", text)
        if not re.search(rf"[ (]{name}\b(?! =)", text):
            text = re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE)
    return text + "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"


def for_target(text, target):
    """The module of llvm-spirv for the target, with definitions of the functions that it calls; and the functions that are not known."""
    text = re.sub(r"^target (datalayout|triple) = .*\n", "", text, flags=re.MULTILINE)
    text = map_spaces(zeros_by_memset(text), target.spaces)
    if target.kernel_convention == "amdgpu_kernel":
        private = target.spaces[0]
        text = re.sub(r"^(\s+%\S+ = alloca .+?)$", rf"\1, addrspace({private})", text, flags=re.MULTILINE)
        text = re.sub(r"^define spir_kernel void @(\S+?)\((.*)\)[^()]*\{\n", lambda m: kernel_with_references(m, private, 4), text,
                      flags=re.MULTILINE)
        text += f"\ndeclare void @llvm.memcpy.p{private}.p4.i64(ptr addrspace({private}), ptr addrspace(4), i64, i1)\n"
    text = text.replace("spir_kernel", target.kernel_convention).replace("spir_func ", "")
    unknown, definitions = [], ""
    for mangled in sorted(set(re.findall(r"^declare [^@]*@(_Z[\w.]+)\(", text, flags=re.MULTILINE))):
        found = definition(mangled, target)
        if found is None:
            unknown.append(mangled)
        else:
            text = re.sub(rf"^declare [^@]*@{re.escape(mangled)}\(.*\n", "", text, flags=re.MULTILINE)
            definitions += found
    module = f'target triple = "{target.triple}"\n' + text + definitions + target.work_items + target.declarations
    seen, lines = set(), []
    for line in module.splitlines():  # what was declared for two address spaces is now one function
        declared = re.match(r"declare [^@]*(@[\w.]+)\(", line)
        if declared and declared.group(1) in seen:
            continue
        if declared:
            seen.add(declared.group(1))
        lines.append(line)
    return "\n".join(lines) + "\n", unknown
