// Errors of MPI calls, which are raised through the error handler of a communicator.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Asks the error handler of `comm` (of MPI_COMM_WORLD if it is not usable) what to do about an
// error of `function`; returns `code` if the handler returns. The text says what is wrong and what
// to do; printf format. Ends the job under MPI_ERRORS_ARE_FATAL.
[[gnu::cold, gnu::noinline, gnu::format(printf, 4, 5)]] int fail(const char* function,
                                                                 MPI_Comm comm, int code,
                                                                 const char* format, ...);

// As fail(), with the error handler of `comm`, which the program may have freed: a request keeps
// it.
[[gnu::cold, gnu::noinline, gnu::format(printf, 4, 5)]] int fail_through(MPI_Comm comm,
                                                                         const char* function,
                                                                         int code,
                                                                         const char* format, ...);

// Raises the error for an unusable communicator: MPI is not initialised, or the communicator is
// MPI_COMM_NULL, was freed, or is of a kind that the function does not work on.
[[gnu::cold, gnu::noinline]] int fail_comm(const char* function, MPI_Comm comm = nullptr);

// As fail(), with the error handler of MPI_FILE_NULL.
[[gnu::cold, gnu::noinline]] int fail_file(const char* function, int code, const char* what);

// Returns the error class for the status of an operation of the recovery layer.
int class_of(recovery::Status status);
// Raises the error of an operation of the recovery layer that did not end in kOk.
[[gnu::cold, gnu::noinline]] int fail_status(const char* function, MPI_Comm comm,
                                             recovery::Status status);

// Gives the place where the program has called MPI, in the form that texts use: as the program has
// named it, or else from the stack. Empty: it is not known.
void put_call_site(char* to, std::size_t bytes);
// Whether this process is a rank of a job; else it is a world of one.
bool has_agent();

// Shows the user one line about the whole job: of all ranks' lines about `subject` only the first
// is shown. A process that is not a rank shows each line.
void tell_once(const char* subject, const char* text);

// Ends the job with exit code `code` and one line for the user (none if empty): the agent prints it
// if there is one, else the process does.
[[noreturn]] void end_job(int code, const char* text);

}  // namespace rejoin::pmpi
