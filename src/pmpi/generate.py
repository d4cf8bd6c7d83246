#!/usr/bin/env python3
"""Generates from functions.txt the files that must agree about the functions of the shim.

    generate.py api FILE        declarations of the implementations
    generate.py calls FILE      table of the implementations that are passed the call site
    generate.py wrappers FILE   PMPI_X, and MPI_X as its weak alias
    generate.py exports FILE    the linker's version script
    generate.py unsupported FILE  names of the functions that are not supported, for an array
    generate.py coverage FILE   docs/coverage.md
    generate.py check FILE      exit 1 if FILE is not what `coverage` would write
"""
import hashlib
import pathlib
import re
import sys
from dataclasses import dataclass

TABLE = pathlib.Path(__file__).with_name("functions.txt")
STATUSES = ("call", "works", "error")
OBJECTS = ("ompi_*", "OMPI_C_*", "MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE", "mpi_fortran_*",
           "rejoin_*")

# Parameters that point to results or functions. The wrapper refuses null pointers there with Open
# MPI's error classes, so that implementations need not check.
NOT_NULL = re.compile(r"(int|char|MPI_(?!Status)\w+)\* \w+|void\* baseptr")
ERROR_CLASSES = (
    (re.compile("MPI_I?[bsr]?(send|recv)(_init)?|MPI_Imrecv", re.IGNORECASE), "MPI_Request", "MPI_ERR_REQUEST"),
    (re.compile(".*"), "MPI_Datatype", "MPI_ERR_TYPE"))
# Exceptions: handles that are both input and output, which the implementation checks, and pointers
# that may be null.
UNCHECKED = re.compile(
    r"MPI_Init(_thread)?|MPI_\w+_free(_keyval)?|MPI_Keyval_free|MPI_Comm_disconnect|"
    r"MPI_Cancel|MPI_Start|MPI_Wait|MPI_Mrecv|MPI_Type_commit|MPI_T_\w+_(get_info|get_item|handle_alloc)")
MAY_BE_NULL = {"MPI_Test": "request", "MPI_Imrecv": "message"}
# Arrays of results and their numbers of elements. An empty array may be null.
LENGTHS = {("MPI_Waitsome", "array_of_indices"): "incount",
           ("MPI_Testsome", "array_of_indices"): "incount",
           ("MPI_Group_translate_ranks", "ranks2"): "n",
           ("MPI_Info_get_string", "value"): "*buflen"}


@dataclass
class Function:
    status: str
    result: str
    name: str  # with MPI_
    parameters: list  # of "TYPE NAME"; [] for (void)
    note: str
    header: str  # empty: Open MPI 4.1 does not declare it

    @property
    def implementation(self):
        return self.name.split("_", 1)[1].lower()

    @property
    def prototype(self):
        return ", ".join(self.parameters) or "void"

    def argument_names(self):
        """The names of the implementation's parameters; variable arguments are one, a va_list."""
        return ["arguments" if p == "..." else re.search(r"(\w+)(\[\d*\])*$", p)[1]
                for p in self.parameters]

    def not_null(self):
        """(name, condition, error class) of each pointer that must not be null.

        The condition is a C++ expression; "": always."""
        if UNCHECKED.fullmatch(self.name):
            return []
        found = []
        for p, name in zip(self.parameters, self.argument_names()):
            length = LENGTHS.get((self.name, name), "")
            of_status = self.name.startswith("MPI_Status_") and p.startswith("MPI_Status* ")
            gives_pointer = re.fullmatch(r"MPI_(\w+_get_attr|Attr_get|Buffer_detach)", self.name)
            of_pointer = gives_pointer and p.startswith("void* ")
            listed = NOT_NULL.fullmatch(p) or length or of_status or of_pointer
            if listed and name != MAY_BE_NULL.get(self.name):
                classes = (code for function, kind, code in ERROR_CLASSES
                           if function.fullmatch(self.name) and p.startswith(f"{kind}* "))
                found.append((name, length and f"{length} > 0", next(classes, "MPI_ERR_ARG")))
        return found

    def comm(self):
        """The communicator whose error handler is called: a parameter, or MPI_COMM_WORLD."""
        return next((p.split()[-1] for p in self.parameters if re.fullmatch(r"MPI_Comm \w+", p)),
                    "MPI_COMM_WORLD")

    @property
    def implementation_parameters(self):
        return ["va_list arguments" if p == "..." else p for p in self.parameters]


def parse(text):
    """The sections of the table, in order: [(title, [Function])]."""
    sections = []
    header = ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        section = re.fullmatch(r"\[(.+)\] \((.+)\)", line)
        if section:
            header = "" if section[2] == "none" else section[2]
            sections.append((section[1], []))
            continue
        function = re.fullmatch(r"(\w+)\s+(\w+) (MPIX?_\w+)\((.*?)\)(?:\s+-- (.+))?", line)
        if not function or function[1] not in STATUSES or not sections:
            sys.exit(f"{TABLE.name}:{number}: not a function or a section: {line}")
        parameters = [] if function[4] == "void" else function[4].split(", ")
        sections[-1][1].append(Function(function[1], function[2], function[3], parameters,
                                        function[5] or "", header))
    return sections


def api(sections):
    lines = ["// Generated by generate.py: the implementations that the wrappers call.", "#pragma once", "",
             "#include <cstdarg>", "", '#include "pmpi/mpi_api.h"', "", "namespace rejoin::pmpi {", ""]
    for _, functions in sections:
        for f in functions:
            if f.status == "error":
                continue
            site = ["const void* site"] if f.status == "call" else []
            lines.append(f"{f.result} {f.implementation}({', '.join(site + f.implementation_parameters)});")
    lines += ["", "// Raise the error of a function that is not supported. Return its code.",
              "int unsupported(const char* function, MPI_Comm comm);",
              "int unsupported_of_file(const char* function, MPI_Comm comm);",
              "// Raises the error that the argument `name` is a null pointer. Returns its code.",
              "int fail_null(const char* function, MPI_Comm comm, int code, const char* name);", "",
              "}  // namespace rejoin::pmpi"]
    return lines


def calls(sections):
    names = [f.implementation for _, functions in sections for f in functions if f.status == "call"]
    members = [f"  decltype(&rejoin::pmpi::{n}) {n};" for n in names]
    # Two libraries share the table. The hash in its name keeps libraries of different builds from
    # being linked with each other.
    version = hashlib.sha256("\n".join(members).encode()).hexdigest()[:12]
    return ["// Generated by generate.py: functions that libmpi_mpifh.so.40 passes its caller's call site.",
            "#pragma once", "", '#include "api.h"', "", "struct rejoin_call_table {"] + members + [
            "};", f"#define rejoin_calls rejoin_calls_{version}",
            'extern "C" __attribute__((visibility("default"))) const rejoin_call_table rejoin_calls;']


def refuse_null(f, name, condition, code):
    test = f"{name} == nullptr" + (f" && {condition}" if condition else "")
    if f.name.startswith("MPI_T_"):  # these functions call no error handler
        return f"if ({test}) [[unlikely]] return MPI_T_ERR_INVALID; "
    call = f'rejoin::pmpi::fail_null("{f.name}", {f.comm()}, {code}, "{name}")'
    return f"if ({test}) [[unlikely]] {{ const Entered entered; return {call}; }} "


def wrapper(f):
    if f.status == "error":
        # Only the communicator is used, for its error handler.
        end = "unsupported_of_file" if f.name.startswith("MPI_File_") else "unsupported"
        body = f'const Entered entered; return rejoin::pmpi::{end}("{f.name}", {f.comm()});'
        parameters = [p if p.split()[-1] == f.comm() else re.sub(r"\w+((\[\d*\])*)$", r"\1", p)
                      for p in f.parameters]
    else:
        parameters = f.parameters
        site = ["__builtin_return_address(0)"] if f.status == "call" else []
        call = f"rejoin::pmpi::{f.implementation}({', '.join(site + f.argument_names())})"
        if f.status == "call":
            watched = f"return enter_{f.implementation}({', '.join(site + f.argument_names())});"
        else:
            watched = f"{{ const Entered entered; return {call}; }}"
        body = "".join(refuse_null(f, *p) for p in f.not_null())
        body += f"if (is_watched) [[unlikely]] {watched} return {call};"
        if "..." in parameters:
            body = (f"va_list arguments; va_start(arguments, {f.argument_names()[-2]}); "
                    f"const Entered entered; const {f.result} result = {call}; va_end(arguments); "
                    "return result;")
    listed = ", ".join(parameters) or "void"
    return [f"{f.result} P{f.name}({listed}) {{ {body} }}",
            f'{f.result} {f.name}({f.prototype}) __attribute__((weak, alias("P{f.name}")));']


def wrappers(sections):
    called = [f for _, functions in sections for f in functions if f.status == "call"]
    lines = ["// Generated by generate.py.", '#include "calls.h"', '#include "pmpi/context.h"', "",
             "using rejoin::pmpi::Entered;", "using rejoin::pmpi::is_next_watched;",
             "using rejoin::pmpi::is_watched;", "",
             "// enter_X: for calls from Fortran, and for calls that may need an Entered object. watched_X",
             "// is a function of its own so that enter_X stays short.", "namespace {"]
    for f in called:
        parameters = ", ".join(["const void* site"] + f.parameters)
        arguments = ", ".join(["site"] + f.argument_names())
        call = f"return rejoin::pmpi::{f.implementation}({arguments});"
        lines += [f"[[gnu::noinline]] {f.result} watched_{f.implementation}({parameters}) {{ "
                  f"const Entered entered; {call} }}",
                  f"[[gnu::noinline]] {f.result} enter_{f.implementation}({parameters}) {{ "
                  f"if (is_next_watched()) [[unlikely]] return watched_{f.implementation}({arguments}); "
                  f"{call} }}"]
    lines += ["}  // namespace", "", "#pragma GCC visibility push(default)", 'extern "C" {']
    for title, functions in sections:
        lines += ["", f"// {title}"]
        for f in functions:
            lines += wrapper(f)
    lines += ["", '}  // extern "C"', "#pragma GCC visibility pop", "",
              "constinit const rejoin_call_table rejoin_calls = {"]
    return lines + [f"    enter_{f.implementation}," for f in called] + ["};"]


def exports(sections):
    names = [n for _, functions in sections for f in functions for n in (f.name, "P" + f.name)]
    return ["{", "  global:"] + [f"    {n};" for n in names] + [f"    {o};" for o in OBJECTS] + [
        "  local: *;", "};"]


def unsupported(sections):
    return [f'    "{f.name}",' for _, functions in sections for f in functions if f.status == "error"]


def names_of(functions):
    return ", ".join(f"`{f.name}`" + (f" ({f.note})" if f.note else "") for f in functions)


def coverage(sections):
    lines = [
        "# Which MPI functions work", "",
        "<!-- Generated from src/pmpi/functions.txt by src/pmpi/generate.py; ctest checks it. -->", "",
        "Every function that Open MPI 4.1's `mpi.h` declares is in the library, under its `MPI_` and its",
        "`PMPI_` name. *Works* means that it does what MPI 3.1 says. *Answers with an error* means that it",
        "raises the error class `MPI_ERR_UNSUPPORTED_OPERATION` through the error handler of its communicator,",
        "or of `MPI_COMM_WORLD` if it has none. The error's text names the function, and nothing is passed to",
        "another MPI library. If the handler lets the program continue, `ftrun` prints one line for each such",
        "function, once in the job. Functions of files use the error handler that the program has set for",
        "`MPI_FILE_NULL`. If it has set none, they use that of `MPI_COMM_WORLD`, because many programs do not",
        "check what `MPI_File_open` returns.", "",
        "A configure script that looks for a function by name (`AC_CHECK_FUNCS`, CMake's",
        "`check_function_exists`) therefore finds all of them, whether or not they work here. Pass the right",
        "answer to such a script (`ac_cv_func_MPI_Put=no`), or let it run a program.", "",
        "The tool interface (`MPI_T_`) lists the engine's counters as performance variables: operations,",
        "replayed operations, messages, incarnations, checkpoints, memory of the journal. They always run and",
        "are read-only. There are no control variables.", "",
        "All predefined datatypes work, and all predefined operations with every type that MPI allows for them;",
        "so do user-defined operations. Derived types of every constructor work in every call that",
        "communicates, including types with gaps and with explicit bounds. A reduction of derived types needs a",
        "user-defined operation. Its function is called with values at the distance of the type's extent (with",
        "one value at a time if values overlap). The gaps of these values are zero. In `external32` a",
        "`long` has 4 bytes and a wide character 2, as MPI says; a value that does not fit raises",
        "`MPI_ERR_CONVERSION`.", "",
        "Every thread level is provided. Under `MPI_THREAD_MULTIPLE` one thread at a time is in the library, and",
        "a thread that waits lets others in. The order in which threads call MPI is not recorded. If a rank",
        "dies after a second thread of it has called MPI, all ranks therefore go back to their newest set of",
        "snapshots. A rank that has asked for that level but calls MPI from one thread, whichever, is restarted",
        "like any other.", "",
        "If several receives are complete, `MPI_Waitany` and `MPI_Testany` return the one that was matched",
        "first, not the first one of the array.",
        "",
        "Generalized requests (`MPI_Grequest_start`) work: the program of a restarted rank completes them",
        "again, as it did the first time. Like any other request, an outstanding one prevents a checkpoint.", "",
        "A handle that is null, was freed, or belongs to another kind of object raises the error class that MPI",
        "specifies. A pointer that points to no object raises it only if memory can be read there. Otherwise",
        "the rank crashes; its next incarnation dies in the same place, so the job ends with a line that says",
        "so. A null pointer where MPI writes a result raises `MPI_ERR_ARG` (as in Open MPI, `MPI_ERR_REQUEST`",
        "for the request of a message, and `MPI_ERR_TYPE` for a datatype).", "",
        "Intercommunicators carry messages and all collectives that MPI defines for them: blocking,",
        "nonblocking and persistent. Communicators know no info keys, so `MPI_Comm_set_info` and",
        "`MPI_Comm_dup_with_info` ignore those that they are passed.", "",
        "One-sided communication is not supported. Memory that ranks share (`MPI_Win_allocate_shared`, then",
        "`MPI_Win_fence`, or `MPI_Win_lock_all` and `MPI_Win_sync`) is changed by stores that a library cannot",
        "observe. To restart a rank, such a window would need three things. It would have to be in the job's",
        "segment, so that it outlives the rank. At each fence a copy of what each rank has stored since the",
        "fence before would have to be recorded, so that a replay finds the window as it was then. And loads and",
        "stores of a replay would have to go to a private copy until the rank is live. Between",
        "`MPI_Win_lock_all` and `MPI_Win_unlock_all` no call decides the order of stores by several ranks, so a",
        "rank could be restarted only from a fence or a checkpoint that all ranks of the window have reached.", "",
        "C++ programs linked by `mpicxx` run; `libmpi_cxx.so.40` is part of Rejoin. The C++ classes that MPI 3",
        "removed are thin wrappers of the C functions and work as far as those do. Their callbacks work for",
        "operations; those for attributes and error handlers answer with an error.", "",
        "Fortran programs linked by `mpifort` run, with `mpif.h`, the module `mpi` and the module `mpi_f08`.",
        "`libmpi_mpifh.so.40` is part of Rejoin, and Open MPI's libraries for the two modules call it. It has",
        "the functions below, and those that are not supported in C are not supported in Fortran.",
        "`MPI_PCONTROL` has no further arguments in Fortran; the functions of `rejoin.h` can be called through",
        "`bind(C)`. All calls of one MPI function through `mpi_f08` have the same call site, in the module's",
        "library. Whether an operation of a restarted rank belonged to the bootstrap phase",
        "(`docs/checkpoints.md`) is therefore noticed less often than with `mpif.h` and `mpi`.", "",
        "| | works | answers with an error |", "| --- | ---: | ---: |"]
    total = [0, 0]
    for title, functions in sections:
        works = sum(f.status != "error" for f in functions)
        total[0] += works
        total[1] += len(functions) - works
        lines.append(f"| {title} | {works} | {len(functions) - works} |")
    lines.append(f"| **together** | **{total[0]}** | **{total[1]}** |")
    for title, functions in sections:
        works = [f for f in functions if f.status != "error"]
        errors = [f for f in functions if f.status == "error"]
        lines += ["", f"## {title}"]
        if works:
            lines += ["", f"Works: {names_of(works)}."]
        if errors:
            lines += ["", f"Answers with an error: {names_of(errors)}."]
    return lines


def main(arguments):
    makers = {"api": api, "calls": calls, "wrappers": wrappers, "exports": exports,
              "unsupported": unsupported, "coverage": coverage,
              "check": coverage}
    if len(arguments) != 2 or arguments[0] not in makers:
        sys.exit(__doc__)
    text = "\n".join(makers[arguments[0]](parse(TABLE.read_text()))) + "\n"
    path = pathlib.Path(arguments[1])
    if arguments[0] != "check":
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit(f"{path} is not up to date: run src/pmpi/generate.py coverage docs/coverage.md")


if __name__ == "__main__":
    main(sys.argv[1:])
