#include "launcher/agent/compressed_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "launcher/agent/checked_files.h"

namespace rejoin::launcher {
namespace {

// The fastest level: ranks need the processors.
constexpr int kLevel = 1;

struct Freed {
  void operator()(ZSTD_CCtx* c) const { ZSTD_freeCCtx(c); }
  void operator()(ZSTD_DCtx* d) const { ZSTD_freeDCtx(d); }
};

bool failed(int error) {
  errno = error;
  return false;
}

bool compress_to(NewFile& file, int plain, std::uint64_t bytes) {
  const std::unique_ptr<ZSTD_CCtx, Freed> context(ZSTD_createCCtx());
  if (!context) return failed(ENOMEM);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setPledgedSrcSize(context.get(), bytes);
  std::vector<char> piece(kReadPieceBytes), buffer(ZSTD_CStreamOutSize());
  for (bool ends = false; !ends;) {
    const ssize_t n = read_piece(plain, piece.data(), piece.size());
    if (n < 0) return false;
    ends = static_cast<std::size_t>(n) < piece.size();
    ZSTD_inBuffer in = {piece.data(), static_cast<std::size_t>(n), 0};
    for (std::size_t left = 1; left != 0;) {
      ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
      left = ZSTD_compressStream2(context.get(), &out, &in, ends ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left) != 0) return failed(EIO);
      if (!file.add(buffer.data(), out.pos)) return failed(file.error());
      if (!ends) left = in.size - in.pos;
    }
  }
  return file.sync();
}

bool decompress_to(int file, std::string_view bytes) {
  const std::unique_ptr<ZSTD_DCtx, Freed> context(ZSTD_createDCtx());
  if (!context) return failed(ENOMEM);
  std::vector<char> buffer(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  for (std::size_t left = 1; left != 0;) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(context.get(), &out, &in);
    const bool stands = out.pos == 0 && in.pos == before;  // the file is cut off
    if (ZSTD_isError(left) != 0 || (left != 0 && stands)) return failed(EBADMSG);
    if (!write_all(file, buffer.data(), out.pos)) return false;
  }
  return in.pos == in.size || failed(EBADMSG);
}

}  // namespace

bool compress_file(const std::string& path) {
  const Descriptor plain(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!plain.open() || fstat(plain.get(), &info) != 0) return false;
  NewFile compressed(path + kCompressedSuffix, O_EXCL, 0600);
  if (!compressed.good()) return failed(compressed.error());
  return compress_to(compressed, plain.get(), static_cast<std::uint64_t>(info.st_size)) &&
         unlink(path.c_str()) == 0;
}

Result<PlainFile> PlainFile::open(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return PlainFile(path, {});
  const std::string compressed_path = path + kCompressedSuffix;
  auto compressed = MappedFile::open(compressed_path);
  if (!compressed.ok()) return compressed.error();
  const std::string directory = std::filesystem::path(path).parent_path();
  Descriptor copy(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!copy.open()) copy = Descriptor(memfd_create("rejoin-image", MFD_CLOEXEC));
  if (!copy.open() || !decompress_to(copy.get(), compressed.value().bytes())) {
    return Error{compressed_path + ": cannot be decompressed: " + error_text(errno)};
  }
  const std::string link =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(copy.get());
  return PlainFile(link, std::move(copy));
}

}  // namespace rejoin::launcher
