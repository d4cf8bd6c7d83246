#!/usr/bin/env python3
"""Generates the Fortran face of the functions in ../functions.txt: generate.py FILE

Every function MPI_X becomes ompi_X_f, the name by which Open MPI's Fortran modules call it, with all
the names that compilers make of MPI_X as aliases. Its parameters are those of C by reference, then
the error code and the lengths of strings. A parameter's C type, and sometimes its name, determines
how it is converted (convert.h). Functions that need more than that are written by hand (BY_HAND).
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from generate import TABLE, parse  # noqa: E402

# Functions with other parameters than in C, with callbacks, with attributes, or with text whose
# length is an argument.
BY_HAND = """
    MPI_Init MPI_Init_thread MPI_Pcontrol MPI_Wtick MPI_Wtime MPI_Aint_add MPI_Aint_diff
    MPI_Buffer_detach MPI_Info_get MPI_Address MPI_Type_extent MPI_Type_lb MPI_Type_ub MPI_Type_hvector MPI_Type_hindexed MPI_Type_struct
    MPI_Op_create MPI_Comm_create_errhandler MPI_Errhandler_create MPI_File_create_errhandler
    MPI_Keyval_create MPI_Attr_get MPI_Attr_put
    MPI_Comm_create_keyval MPI_Comm_get_attr MPI_Comm_set_attr
    MPI_Type_create_keyval MPI_Type_get_attr MPI_Type_set_attr MPI_Win_create_keyval
    MPI_Grequest_start
""".split()
WITH_CPTR = "MPI_Alloc_mem MPI_Win_allocate MPI_Win_allocate_shared MPI_Win_shared_query".split()
NOT_IN_FORTRAN = re.compile(
    r"MPI_T_|MPI_Session_|MPI_\w+_(c2f|f2c)$|MPI_Info_create_env|MPI_Info_get_string|"
    r"MPIX_Query_cuda_support|MPI_\w+_from_(groups?|session_pset)")

HANDLES = "Comm Datatype Errhandler File Group Info Message Op Request Win".split()
NUMBERS = "int|MPI_Aint|MPI_Count|MPI_Offset"
LOGICALS = "flag inflag commute weighted".split()  # results. As arguments, C accepts any non-zero
WEIGHTS = "sourceweights destweights weights".split()
TOPOLOGY_NEIGHBOURS = re.compile(r"MPIX?_I?neighbor_", re.IGNORECASE)


class Wrapper:
    """One function: `parameters` of Fortran, `locals` before the call, `arguments` of the call."""

    def __init__(self, function):
        self.function = function
        self.parameters, self.lengths, self.locals, self.arguments = [], [], [], []
        for p in function.parameters:
            match = re.fullmatch(r"(?:const )?(\w+) ?(\**)(\w+)((?:\[\d*\])*)", p.replace("* ", "*"))
            if not match:
                match = re.fullmatch(r"(?:const )?(\w+)(\**) (\w+)((?:\[\d*\])*)", p)
            if not match:
                sys.exit(f"{function.name}: no rule for the parameter {p}")
            const = p.startswith("const ")
            self.convert(const, match[1], match[2] + "*" * match[4].count("["), match[3], match[4])

    def add(self, declared, argument, local=None):
        self.parameters.append(declared)
        self.arguments.append(argument)
        if local:
            self.locals.append(local)

    def convert(self, const, base, stars, name, brackets):
        function, is_array = self.function.name, brackets != ""
        handle = base.removeprefix("MPI_") in HANDLES
        if handle and not stars:
            self.add(f"MPI_Fint* {name}", f"to_c<{base}>({name})")
        elif handle and is_array:
            self.add(f"MPI_Fint* {name}", f"c_{name}",
                     f"Handles<{base}> c_{name}({name}, {self.count_of(name)});")
        elif handle:
            self.add(f"MPI_Fint* {name}", f"&c_{name}.handle", f"Handle<{base}> c_{name}({name});")
        elif base == "MPI_Status":
            count = self.count_of(name) if name == "array_of_statuses" else "1"
            local = f"StatusIn c_{name}({name});" if const else f"Statuses c_{name}({name}, {count});"
            self.add(f"MPI_Fint* {name}", f"c_{name}", local)
        elif re.fullmatch(NUMBERS, base) and not stars:
            self.add(f"{base}* {name}", f"*{name}")
        elif base == "int" and name in LOGICALS and not is_array:
            self.add(f"MPI_Fint* {name}", f"&c_{name}.value", f"Logical c_{name}({name});")
        elif base == "int" and name == "index" and not is_array:
            self.add(f"MPI_Fint* {name}", f"&c_{name}.value", f"Index c_{name}({name});")
        elif base == "int" and name == "array_of_indices":
            self.add(f"MPI_Fint* {name}", f"{name}", f"Indices c_{name}({name}, outcount);")
        elif base == "int" and name in WEIGHTS:
            self.add(f"MPI_Fint* {name}", f"weighting({name})")
        elif base == "int" and brackets == "[][3]":
            self.add(f"MPI_Fint* {name}", f"reinterpret_cast<int(*)[3]>({name})")
        elif re.fullmatch(NUMBERS, base) and stars == "*":
            self.add(f"{base}* {name}", name)
        elif base == "void" and stars == "*":
            self.add(f"void* {name}", f"choice({name})")
        elif base == "char" and stars == "*":
            self.lengths.append(f"int {name}_length")
            kind = "TextOut" if not const else "InfoText" if "_Info_" in self.function.name else "Text"
            local = f"{kind} c_{name}({name}, {name}_length);"
            self.add(f"char* {name}", f"c_{name}", local)
        else:
            sys.exit(f"{function}: no rule for the parameter {base}{stars} {name}")

    def count_of(self, name):
        """The C++ expression for the number of elements of an array of handles or statuses."""
        function = self.function.name
        if name in ("sendtypes", "recvtypes"):
            of = "neighbours_of" if TOPOLOGY_NEIGHBOURS.match(function) else "members_of"
            count = f"{of}(comm, {'true' if name == 'sendtypes' else 'false'})"
            return f"in_place(sendbuf) ? 0 : {count}" if name == "sendtypes" else count
        counts = {"array_of_datatypes": "max_datatypes", "array_of_info": "count"}
        if function in ("MPI_Waitsome", "MPI_Testsome"):
            return "*incount"
        return "*" + counts.get(name, "count")

    def lines(self):
        f = self.function
        prefix, name = f.name.lower().split("_", 1)
        listed = ", ".join(self.parameters + ["MPI_Fint* ierr"] + self.lengths)
        if f.status == "call":
            call = f"rejoin_calls.{name}("
            arguments = ["__builtin_return_address(0)"] + self.arguments
        else:
            call = f"P{f.name}("
            arguments = self.arguments
        body = self.locals + [f"give(ierr, {call}{', '.join(arguments)}));"]
        return [f"void o{prefix}_{name}_f({listed}) {{"] + [f"  {line}" for line in body] + ["}"]


def unsupported(f):
    """A function that is not supported. C's function gets the communicator, for its error handler."""
    comms = [p.split()[-1] for p in f.parameters if re.fullmatch(r"MPI_Comm \w+", p)]
    parameters, arguments = [], []
    for p in f.parameters:
        if comms and p == f"MPI_Comm {comms[0]}":
            parameters.append(f"MPI_Fint* {comms[0]}")
            arguments.append(f"to_c<MPI_Comm>({comms[0]})")
        else:
            parameters.append("void*")
            arguments.append("{}")
    prefix, name = f.name.lower().split("_", 1)
    return [f"void o{prefix}_{name}_f({', '.join(parameters + ['MPI_Fint* ierr'])}) {{",
            f"  give(ierr, P{f.name}({', '.join(arguments)}));", "}"]


def names(f):
    prefix, name = f.name.split("_", 1)
    lines = [f"REJOIN_NAMES({prefix.lower()}, {prefix}, {name.lower()}, {name}, {name.upper()})"]
    if f.name in WITH_CPTR:  # the same procedure with TYPE(C_PTR)
        function, name = f"ompi_{name.lower()}", name + "_cptr"
        lines.append(f"REJOIN_NAME({function}_f, {function}_cptr_f)")
        for p in ("", "p"):
            lines.append(f"REJOIN_NAMES_OF({function}_f, {p}mpi, {p.upper()}MPI, {name.lower()}, "
                         f"{name}, {name.upper()})")
    return lines


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    lines = ["// Generated by mpifh/generate.py from functions.txt.", '#include "calls.h"',
             '#include "pmpi/mpifh/convert.h"', '#include "pmpi/mpifh/names.h"', "",
             "using namespace rejoin::mpifh;", "", "#pragma GCC visibility push(default)",
             'extern "C" {']
    for title, functions in parse(TABLE.read_text()):
        lines += ["", f"// {title}"]
        for f in functions:
            if NOT_IN_FORTRAN.match(f.name) or f.name in BY_HAND:
                continue
            if not f.header:
                lines.append(f"{f.result} P{f.name}({f.prototype});")
            lines += unsupported(f) if f.status == "error" else Wrapper(f).lines()
            lines += names(f)
    lines += ["", '}  // extern "C"', "#pragma GCC visibility pop"]
    pathlib.Path(arguments[0]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
