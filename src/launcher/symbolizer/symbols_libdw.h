// The small library that uses libdw; loaded when the first call site is printed, or when checkpoint
// files are to name the program's build.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Writes "file:line::function" (or "module+0xplace::function") of the call that returns to ELF
// address `place` of the file `path` into `text`. Returns 0, or -1 if nothing is known or the file
// has another build-id than the given one (0 bytes: any).
int rejoin_symbolize(const char* path, const std::uint8_t* build_id, std::size_t build_id_bytes,
                     std::uint64_t place, char* text, std::size_t text_bytes);

// Copies the build-id of the ELF file `path` into id[0..capacity). Returns its size in bytes; 0:
// the file has none, a larger one, or is no ELF file.
std::size_t rejoin_build_id(const char* path, std::uint8_t* id, std::size_t capacity);
}
