// zip.cpp -- zip archives: entries read by libzip, plain entries written
#include "engine/io/zip.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>

#include "engine/io/required_library.h"

namespace mt {
namespace {

struct Zip : RequiredLibrary {
  Zip() : RequiredLibrary("zip", "libzip-dev", {"libzip.so.5", "libzip.so.4"}) {}
};
#define ZIP(name) MT_LOADED(Zip, name)

struct EntrySource : ByteSource {
  EntrySource(zip_t* archive, size_t index, uint64_t size)
      : file(ZIP(zip_fopen_index)(archive, index, 0)),
        left(size) {
    if (!file) fail("an entry of the archive cannot be read");
  }
  EntrySource(const EntrySource&) = delete;
  ~EntrySource() override { ZIP(zip_fclose)(file); }
  size_t read(uint8_t* out, size_t n) override {
    constexpr size_t kPiece = 64 << 20;  // between two checks for Ctrl-C
    const size_t all = n = std::min<uint64_t>(n, left);
    while (n > 0) {
      check_interrupt();
      const zip_int64_t got = ZIP(zip_fread)(file, out, std::min(n, kPiece));
      if (got <= 0) fail_entry(got);
      out += got, n -= size_t(got), left -= uint64_t(got);
    }
    uint8_t extra;  // the checksum is verified at the end
    if (left == 0)
      if (const zip_int64_t got = ZIP(zip_fread)(file, &extra, 1); got != 0) fail_entry(got);
    return all;
  }
  uint64_t at_most() const override { return left; }
  [[noreturn]] void fail_entry(zip_int64_t got) const {
    fail("an entry of the archive is damaged: {}", got < 0    ? ZIP(zip_file_strerror)(file)
                                                   : got == 0 ? "it ends too early"
                                                              : "it exceeds its size");
  }
  zip_file_t* file;
  uint64_t left;
};

}  // namespace

RegularFile unpacked(RegularFile from) {
  Bytes bytes(from);
  if (!bytes.packed()) return from;
  const std::string text = bytes.rest();
  File memory(memfd_create("unpacked", MFD_CLOEXEC));
  if (!memory || !memory.write(text)) fail("gzip: no memory to unpack");
  lseek(memory.fd(), 0, SEEK_SET);
  return {std::move(memory), text.size()};
}

ZipReader::ZipReader(RegularFile packed) : archive_(nullptr, ZIP(zip_discard)) {
  const RegularFile from = unpacked(std::move(packed));
  const int fd = dup(from.file.fd());
  int code = 0;
  archive_.reset(ZIP(zip_fdopen)(fd, 0, &code));
  if (!archive_) {
    close(fd);
    zip_error_t error;
    ZIP(zip_error_init_with_code)(&error, code);
    const std::string why = ZIP(zip_error_strerror)(&error);
    ZIP(zip_error_fini)(&error);
    fail("it is not a zip archive: {}", why);
  }
  list(from.size);
}

void ZipReader::list(uint64_t file_size) {
  constexpr zip_uint64_t kWanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  const zip_int64_t n = ZIP(zip_get_num_entries)(archive_.get(), 0);
  uint64_t all = 0;
  for (zip_int64_t i = 0; i < n; ++i) {
    zip_stat_t s;
    if (ZIP(zip_stat_index)(archive_.get(), zip_uint64_t(i), 0, &s) != 0 ||
        (s.valid & kWanted) != kWanted)
      fail("its entry {} cannot be read", i + 1);
    const std::string name = printable(s.name);
    if (s.encryption_method != ZIP_EM_NONE) fail("its entry '{}' is encrypted", name);
    if (s.comp_method != ZIP_CM_STORE && s.comp_method != ZIP_CM_DEFLATE)
      fail("its entry '{}' is packed by method {}; stored and deflated can be read", name,
           s.comp_method);
    const bool stored = s.comp_method == ZIP_CM_STORE;
    if (s.comp_size > file_size || (all += s.comp_size) > file_size ||
        (stored ? s.size != s.comp_size : s.size > s.comp_size * 1032 + 65536))
      fail("its entry '{}' of {} bytes is larger than the file can hold", name, s.size);
    entries_.push_back({s.name, s.size});
  }
}

Bytes ZipReader::open(size_t entry) const {
  return Bytes(std::make_unique<EntrySource>(archive_.get(), entry, entries_[entry].size));
}

std::string ZipReader::text(size_t entry, size_t limit) const {
  const Entry& e = entries_[entry];
  if (e.size > limit)
    fail("its entry '{}' has {} bytes, at most {} are expected", printable(e.name), e.size, limit);
  return open(entry).rest();
}

// ---- writing ------------------------------------------------------------------------------------

/// The common fields of local and central headers, from the required version on.
static void put_common_fields(std::string& to, const std::string& name, uint32_t crc, uint64_t size,
                              bool wide, int extra) {
  put_le(to, wide ? 45 : 20, 2);
  put_le(to, 0x800, 2);                 // names are UTF-8
  put_le(to, 0, 2);                     // stored
  put_le(to, 0, 2), put_le(to, 33, 2);  // 1980-01-01: the same tensors give the same file
  put_le(to, crc, 4);
  put_le(to, wide ? UINT32_MAX : size, 4), put_le(to, wide ? UINT32_MAX : size, 4);
  put_le(to, name.size(), 2), put_le(to, uint64_t(extra), 2);
}

constexpr uint64_t kMaxZip32 = UINT32_MAX - 1;

void ZipWriter::write(std::string_view bytes) {
  out_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, const std::vector<std::string_view>& pieces) {
  uint64_t size = 0;
  uLong crc = crc32(0, nullptr, 0);
  for (const std::string_view piece : pieces) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    size += piece.size();
  }
  const bool wide = size > kMaxZip32 || at_ > kMaxZip32;
  std::string local = "PK\3\4", &central = directory_;
  put_common_fields(local, name, uint32_t(crc), size, wide, wide ? 20 : 0);
  local += name;
  if (wide)
    put_le(local, 1, 2), put_le(local, 16, 2), put_le(local, size, 8), put_le(local, size, 8);
  central += "PK\1\2";
  put_le(central, 45, 2);
  put_common_fields(central, name, uint32_t(crc), size, wide, wide ? 28 : 0);
  central.append(2 + 2 + 2 + 4, '\0');  // no comment, disk 0, no attributes
  put_le(central, wide ? UINT32_MAX : at_, 4);
  central += name;
  if (wide)
    put_le(central, 1, 2), put_le(central, 24, 2), put_le(central, size, 8),
        put_le(central, size, 8), put_le(central, at_, 8);
  write(local);
  for (const std::string_view piece : pieces) write(piece);
  ++count_;
}

void ZipWriter::finish() {
  const uint64_t start = at_, size = directory_.size();
  const bool wide = count_ >= UINT16_MAX || start > kMaxZip32 || size > kMaxZip32;
  std::string& end = directory_;
  if (wide) {
    end += "PK\6\6";
    put_le(end, 44, 8), put_le(end, 45, 2), put_le(end, 45, 2), put_le(end, 0, 8);
    put_le(end, count_, 8), put_le(end, count_, 8), put_le(end, size, 8), put_le(end, start, 8);
    end += "PK\6\7";
    put_le(end, 0, 4), put_le(end, start + size, 8), put_le(end, 1, 4);
  }
  const uint64_t few = wide ? UINT16_MAX : count_;
  end += "PK\5\6";
  put_le(end, 0, 4), put_le(end, few, 2), put_le(end, few, 2);
  put_le(end, wide ? UINT32_MAX : size, 4), put_le(end, wide ? UINT32_MAX : start, 4),
      put_le(end, 0, 2);
  write(end);
}

}  // namespace mt
