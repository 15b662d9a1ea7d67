// grid_rows.h -- kernels without loops, compiled for a row of lanes that take the same way through them
//
// Along a row the caller computes numbers, and decides what has the same truth in all lanes of a part of it. These
// decisions, and the dtypes and strides of the accesses that are made, are the key of the part's code.
#pragma once
#include <cstring>

#include "kernels/grid.h"

namespace mt {

class Code;

/// What machine code depends on besides its program.
struct RowKey {
  static constexpr int kMax = 248;
  static constexpr char kSmallStep = 8,
                        kLargeStep = 127;  // small steps are in the key, others are operands
  int used = 0;
  char bytes[kMax];
  void add(char c) {
    if (used < kMax) bytes[used] = c;
    ++used;
  }
  bool fits() const { return used <= kMax; }
  bool operator==(const RowKey& k) const {
    return used == k.used && std::memcmp(bytes, k.bytes, size_t(used)) == 0;
  }
};

/// The statements that the lanes of a row execute, in their order; statements of both branches if lanes may take
/// either. D has the functions of values and statements; they return false if the row has no code.
template <class D> class RowPath {
 protected:
  using V = GridValue;
  using S = GridStatement;
  static constexpr int kOperands = 60;
  enum Lanes { none, some, all };  // those that are active

  /// Whether it is a comparison of whole numbers, which is the same between rows in which it is the same.
  static bool is_order(const V& v) { return v.of == GridType::integer && v.has<op::Lt, op::Le>(); }
  bool body(const GridBody& list) {
    for (const S* s : list)
      if (lanes_ != none && !statement(*s)) return false;
    return true;
  }
  /// The operand with a number's value, if it was not computed again since; -1: there is none.
  int held(int number) const {
    for (int k = 0; k < holds_; ++k)
      if (number_[k] == number) return operand_[k];
    return -1;
  }
  int hold(int number) {
    number_[holds_] = number, operand_[holds_++] = operands_;
    return operands_++;
  }
  void forget(int number) {
    for (int k = 0; k < holds_; ++k)
      if (number_[k] == number) number_[k] = -1;
  }
  void drop_all() { holds_ = 0; }
  bool is_full() const { return operands_ >= kOperands || holds_ >= kOperands; }

  Lanes lanes_ = all;
  int operands_ = 0;

 private:
  D& self() { return static_cast<D&>(*this); }
  bool statement(const S& s) {
    for (const V* v = s.first; v; v = v->next) {
      if (is_full() || !self().value(*v)) return false;
      if (v->code < GridCode::vector) forget(v->at);
    }
    switch (s.kind) {
      case S::assign:
        if (s.is != GridClass::vector) self().assign(s), forget(s.at);
        return true;
      case S::store: return !is_full() && self().store(s);
      case S::branch: {
        const char taken = self().decide(*s.value);
        return taken == '?' ? both(s) : body(taken == 'T' ? s.body : s.other);
      }
      case S::scope: {
        const S* const outer = scope_;
        const Lanes before = lanes_;
        const auto active = self().active();
        scope_ = &s;
        if (!body(s.body)) return false;
        scope_ = outer, lanes_ = before;
        self().activate(active);
        return true;
      }
      case S::leave:
        lanes_ = none;
        self().activate(false);
        return s.target == scope_;
      default: return false;
    }
  }
  bool both(const S& s) {
    const Lanes before = lanes_;
    const auto outside = self().active(), c = self().truth(*s.value);
    lanes_ = some;
    self().activate(outside & c);
    const size_t first = self().stores();
    if (!body(s.body)) return false;
    const size_t second = self().stores();
    const Lanes yes = lanes_;
    const auto left = self().active();
    lanes_ = some;
    self().activate(outside & !c);
    if (!body(s.other)) return false;
    lanes_ = !s.leaves ? before : yes == some ? some : lanes_;
    self().activate(s.leaves ? left | self().active() : outside);
    if (!s.leaves) self().join(c, first, second);
    return true;
  }

  const S* scope_ = nullptr;
  int holds_ = 0, number_[kOperands], operand_[kOperands];
};

/// A kernel without loops, with operations that have instructions.
struct RowFit {
  bool by_blocks;  // it uses positions in blocks
  bool linear[3];  // along a row its numbers are linear in the position of the tile along an axis
};
/// Null if the rows of a launch are not run this way; some are too short.
const RowFit* rows_fit(const Grid&);
/// The code for the part of a row with this key, cached for the lifetime of the process; null: there is none. Its
/// operands are those of the path: accesses, numbers, and the start of values linear in the lane.
const Code* row_code(const GridProgram&, const RowKey&);

/// The codes that a thread used last.
struct RowCodes {
  static constexpr int kMany = 8;
  struct Entry {
    int64_t program;
    RowKey key;
    const Code* code;
  } entry[kMany];
  int next;
  const Code* find(const GridProgram& p, const RowKey& key) {
    for (const Entry& e : entry)
      if (e.program == p.number && e.key == key) return e.code;
    const Code* const code = row_code(p, key);
    entry[next++ % kMany] = {p.number, key, code};
    return code;
  }
};

}  // namespace mt
