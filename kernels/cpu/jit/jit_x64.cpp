// jit_x64.cpp -- compiles lane programs: buffers, executable memory, and calls of the code
#include "kernels/cpu/jit/jit_x64.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/jit/jit_emitter.h"

namespace mt {

std::string_view jit_setting() {
  const char* const setting = std::getenv("MTORCH_JIT");
  return setting ? setting : "";
}

void* executable(const std::vector<uint8_t>& code, size_t& bytes) {
  if (jit_setting() == "vm") return nullptr;
  const size_t page = sysconf(_SC_PAGESIZE);
  bytes = (code.size() + page - 1) / page * page;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, code.data(), code.size());
  if (mprotect(memory, bytes, PROT_READ | PROT_EXEC) == 0) return memory;
  munmap(memory, bytes);
  return nullptr;
}

namespace {

/// Emits into a buffer that is large enough; returns an empty vector if it cannot be compiled.
std::vector<uint8_t> emit(const ir::LaneProgram& program, Isa isa, uint64_t repeated, size_t& entry,
                          std::string* listing) {
  if (program.operands > Emitter::kOperands) return {};
  int copies = Emitter::kMaxCopies;
  for (size_t size = 8192 + 128 * program.code.size(); size < size_t(64) << 20 && copies >= 0;) {
    std::vector<uint8_t> buffer(size);
    if (listing) listing->clear();
    Emitter emitter(program, isa, repeated, copies, buffer.data(), buffer.size(), listing);
    if (!emitter.emit()) {
      if (emitter.failed()) copies = copies > 0 ? copies / 2 : -1;
      else size *= 4;
      continue;
    }
    entry = emitter.entry();
    buffer.resize(emitter.size());
    return buffer;
  }
  return {};
}

constexpr int kWidest = 64;

}  // namespace

std::unique_ptr<Code> compile(const ir::LaneProgram& program, Isa isa, uint64_t repeated) {
  size_t entry = 0, bytes = 0;
  const std::vector<uint8_t> machine = emit(program, isa, repeated, entry, nullptr);
  if (machine.empty()) return nullptr;
  void* const memory = executable(machine, bytes);
  if (!memory) return nullptr;
  const bool masks_rest = isa == Isa::avx512 || !program.carries.empty();
  const int whole = masks_rest ? 1 : register_file(isa).bytes / program.item;
  std::unique_ptr<Code> code(new Code(memory, bytes, entry, whole));
  code->operands_.resize(program.operands);
  for (const ir::LaneInstruction& x : program.code) {
    const bool reads = ir::reads(x.op);
    if (!reads && !is_store(x.op)) continue;
    Code::Operand& o = code->operands_[x.operand()];
    o.item = operand_item(x, program.item);
    (reads ? o.read : o.written) = true;
    o.repeated = repeated >> x.operand() & 1;
  }
  return code;
}

std::string machine_code(const ir::LaneProgram& program, Isa isa, uint64_t repeated) {
  std::string listing;
  size_t entry = 0;
  emit(program, isa, repeated, entry, &listing);
  return listing;
}

bool jit_isa(Isa& isa) {
  const char* const name = cpu_isa();
  isa = std::strcmp(name, "avx512") == 0 ? Isa::avx512 : Isa::avx2;
  return std::strcmp(name, "base") != 0;
}

Code::~Code() { munmap(memory_, bytes_); }

int64_t Code::run(void* const* data, const double* numbers, int64_t from, int64_t to) const {
  const int64_t at = entry_(data, numbers, from, to);
  return at < to && to - at < whole_ ? run_rest(data, numbers, at, to) : at;
}

/// Runs less than a vector through buffers of one vector, padded with copies of the last element,
/// which pass a guard if that element does.
int64_t Code::run_rest(void* const* data, const double* numbers, int64_t from, int64_t to) const {
  alignas(64) char buffer[Emitter::kOperands][kWidest];
  void* part[Emitter::kOperands];
  const size_t n = to - from;
  for (size_t k = 0; k < operands_.size(); ++k) {
    const Operand& o = operands_[k];
    const size_t item = o.item;
    part[k] = o.repeated ? data[k] : buffer[k];
    if (!o.read || o.repeated) continue;
    const char* const at = static_cast<const char*>(data[k]) + size_t(from) * item;
    std::memcpy(buffer[k], at, n * item);
    for (size_t i = n; i < size_t(whole_); ++i)
      std::memcpy(buffer[k] + i * item, at + (n - 1) * item, item);
  }
  if (entry_(part, numbers, 0, whole_) != whole_) return from;
  for (size_t k = 0; k < operands_.size(); ++k) {
    const Operand& o = operands_[k];
    const size_t item = o.item;
    if (o.written)
      std::memcpy(static_cast<char*>(data[k]) + size_t(from) * item, buffer[k], n * item);
  }
  return to;
}

}  // namespace mt
