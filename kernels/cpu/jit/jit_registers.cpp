// jit_registers.cpp -- the register allocator of the emitter
#include "kernels/cpu/jit/jit_emitter.h"

namespace mt {

using ir::LaneOp;

/// Whether the value need not be spilled when its register is evicted.
bool Emitter::has_copy(int32_t value) const {
  const size_t id = id_of(value);
  return plan_.code[id].op == LaneOp::constant || slot_[value] >= 0 ||
         (plan_.direct[id] && !masked_);
}

/// Whether the instruction being emitted is the last use of the value.
bool Emitter::dies(int32_t value) const {
  const int32_t id = id_of(value);
  const bool shared = plan_.shared(id) && !is_last_copy();
  const int r = reg_[value];
  if (shared || (r >= 0 && file_of(id).holds[r] == kTaken))
    return false;  // other copies read it too; it is pinned, or carried
  return uses_->at(id, next_[value] + 1) == Uses::kNone;
}

/// Allocates a register for the value, locked until the instruction is emitted.
int Emitter::allocate(File& file, int32_t value) {
  int found = -1, furthest = -1;
  for (int r = file.first; r < file.first + file.count; ++r) {
    const int32_t held = file.holds[r];
    if (held == kFree) {
      found = r;
      break;
    }
    if (held == kTaken || (file.locked >> r & 1)) continue;
    // A value that is already in memory is evicted first.
    const int32_t use = next_use(held) / 2 + (has_copy(held) ? Uses::kNone / 2 : 0);
    if (use > furthest) furthest = use, found = r;
  }
  if (found < 0) {
    failed_ = true;
    return file.first;
  }
  if (file.holds[found] >= 0) evict(file, found);
  file.holds[found] = value;
  file.locked |= 1u << found;
  if (value >= 0) reg_[value] = int8_t(found);
  return found;
}

void Emitter::evict(File& file, int index) {
  const int32_t value = file.holds[index];
  if (!has_copy(value)) save(value);
  reg_[value] = -1;
  file.holds[index] = kFree;
}

/// Spills the value's register to the stack.
void Emitter::save(int32_t value) {
  if (free_slots_.empty()) free_slots_.push_back(slots_++);
  slot_[value] = free_slots_.back();
  free_slots_.pop_back();
  const int r = reg_[value];
  if (&file_of(id_of(value)) == &masks_) MT_EMIT(kmovw, slot(slot_[value]), Mask(r));
  else MT_EMIT(vmovaps, slot(slot_[value]), vector(r));
}

/// The memory address of the value; for AVX-512, vectors of constants are one element.
Emitter::Address Emitter::home(int32_t value) {
  const size_t id = id_of(value);
  if (slot_[value] >= 0) return slot(slot_[value]);
  if (plan_.code[id].op == LaneOp::constant) return pool(pool_offset_[id], wide_);
  return source(plan_.code[id]);
}

/// Loads the value into a register.
void Emitter::fill(int index, int32_t value) {
  const size_t id = id_of(value);
  const Xmm to = vector(index);
  if (&file_of(int32_t(id)) == &masks_) {
    MT_EMIT(kmovw, Mask(index), slot(slot_[value]));
  } else if (slot_[value] < 0 && plan_.code[id].op == LaneOp::constant && wide_) {
    broadcast(index, pool(pool_offset_[id], false));
  } else {
    MT_EMIT(vmovups, to, home(value));
  }
}

/// Copies between registers of the value's file.
void Emitter::move(int32_t value, int to, int from) {
  if (&file_of(id_of(value)) == &masks_) MT_EMIT(kmovw, Mask(to), Mask(from));
  else MT_EMIT(vmovaps, vector(to), vector(from));
}

void Emitter::broadcast(int index, const Address& one) {
  if (item_ == 4) MT_EMIT(vbroadcastss, vector(index), one);
  else MT_EMIT(vbroadcastsd, vector(index), one);
}

/// The register of input k, which is loaded if necessary.
int Emitter::reload(int k) {
  const int32_t value = in_value(k);
  if (reg_[value] < 0) fill(allocate(file_of(now_->in[k]), value), value);
  return reg_[value];
}

Emitter::Source Emitter::any(int k) {
  const int32_t value = in_value(k);
  const int r = reg_[value];
  if (r >= 0) return {Address(size_t(0)), vector(r), false};
  return {home(value), Xmm(0), true};
}

/// A scratch register until the instruction has been emitted.
Emitter::Xmm Emitter::temporary() {
  const int r = allocate(vectors_, kTaken);
  vectors_.temporary |= 1u << r;
  return vector(r);
}

/// Locks the registers of the inputs, and frees the scratch registers of the previous instruction.
void Emitter::begin(int32_t id, int copy) {
  id_ = id, copy_ = copy, now_ = &plan_.code[id];
  for (int r = 0; r < 32; ++r)
    if (vectors_.temporary >> r & 1) vectors_.holds[r] = kFree;
  vectors_.locked = masks_.locked = vectors_.temporary = 0;
  free_slots_.insert(free_slots_.end(), read_slots_.begin(), read_slots_.end());
  read_slots_.clear();
  for (int k = 0; k < ir::inputs_of(now_->op); ++k)
    if (is_near(k)) file_of(now_->in[k]).locked |= 1u << reg_[in_value(k)];
}

/// Called after the inputs have been read: frees the registers of those without further uses.
void Emitter::consume() {
  for (int k = 0; k < ir::inputs_of(now_->op); ++k) {
    const int32_t in = now_->in[k], value = in_value(k);
    bool again = false;
    for (int j = 0; j < k; ++j) again |= now_->in[j] == in;
    if (again) continue;
    const bool invariant = plan_.invariant[in];
    const bool last = dies(value);
    if (!plan_.shared(in) || is_last_copy()) ++next_[value];
    if (!last) continue;
    const int r = reg_[value];
    if (r >= 0) file_of(in).holds[r] = kFree;
    reg_[value] = -1;
    if (!invariant && slot_[value] >= 0) {  // the instruction may still read it
      read_slots_.push_back(slot_[value]);
      slot_[value] = -1;
    }
  }
}

/// The register for the result of the instruction.
int Emitter::define() {
  const int32_t value = value_of(id_, copy_);
  int32_t first;
  if (!carries_here(&first)) return allocate(file_of(id_), value);
  return reg_[value] = reg_[first];
}

/// Chooses which of three inputs an instruction overwrites: one without further uses, or a copy,
/// preferably of one that must be loaded. At most one input stays in memory.
Emitter::Three Emitter::three() {
  int memory = -1, target = -1;
  bool copied = true;
  int32_t first;
  const bool carried = carries_here(&first);
  for (int k = 2; k >= 0; --k) {
    if (is_near(k)) continue;
    if (memory < 0) memory = k;
    else if (target < 0 && !carried && now_->in[k] != now_->in[memory]) target = k;
    else reload(k);
    if (memory >= 0 && is_near(memory)) memory = -1;  // it was the same value
  }
  for (int k = 0; k < 3 && carried; ++k)
    if (in_value(k) == first) target = k, copied = false;
  for (int k = 0; k < 3 && target < 0 && !carried; ++k)
    if (k != memory && dies(in_value(k))) target = k, copied = false;
  if (target < 0) {
    target = memory >= 0 ? memory : 0;
    if (target == memory) memory = -1;
  }
  Three t{Xmm(0), target, memory, {any(0), any(1), any(2)}};
  const int32_t from = in_value(target), to = value_of(id_, copy_);
  if (copied) {
    const int r = define();
    if (t.place[target].in_memory) fill(r, from);
    else MT_EMIT(vmovaps, vector(r), t.place[target].vector);
    consume();
    t.to = vector(r);
    return t;
  }
  const int r = reg_[from];
  consume();
  if (vectors_.holds[r] != kTaken)
    vectors_.holds[r] = to;  // kTaken: the register of a carried value
  reg_[to] = int8_t(r);
  t.to = vector(r);
  return t;
}

}  // namespace mt
