// grid_rows_run.h -- runs the rows of a kernel without loops: as vectors where lanes take one way, else as threads
#pragma once
#include "kernels/cpu/interpret/grid_machine.h"
#include "kernels/cpu/jit/grid_rows.h"
#include "kernels/cpu/jit/native.h"

namespace mt {
inline namespace MT_ISA {

template <class Walk> class RowRunner : RowPath<RowRunner<Walk>> {
  using Path = RowPath<RowRunner<Walk>>;
  using Path::operands_, Path::lanes_;
  using V = GridValue;
  using S = GridStatement;
  friend Path;

 public:
  /// `truth`: memory for each vector of the program.
  RowRunner(Walk& w, RowCodes& codes, uint8_t* truth) : w_(w), codes_(codes), truth_(truth) {}

  /// Runs `count` rows; start(row) moves the machine there, threads(row, lo, hi) runs lanes one after the other. If
  /// the rows are `linear` in their number (RowFit), those between two that are alike are not looked at.
  template <class Start, class Threads>
  void run(int64_t count, bool linear, const Start& start, const Threads& threads) {
    constexpr int64_t kFewest = 4, kLongestPause = 32;
    int64_t next_try = linear ? 0 : count, pause = 1;
    for (int64_t row = 0; row < count && !w_.interrupted();) {
      const int parts = look_at(row, part_[0], start);
      int64_t many = 1;
      if (parts > 0 && row >= next_try && count - row >= kFewest) {
        many = look_at(row + 1, part_[1], start) == parts ? count - row : 1;
        while (many >= kFewest &&
               !(look_at(row + many - 1, part_[2], start) == parts && are_alike(parts, many)))
          many /= 2;
        if (many < kFewest) many = 1, next_try = row + pause, pause = 2 * pause;
        else pause = 1;
        if (pause > kLongestPause) pause = kLongestPause;
      }
      if (parts == 0) threads(row, 0, w_.n[0]);
      for (int64_t k = 0; k < many && !w_.interrupted(); ++k)
        for (int j = 0; j < parts; ++j) {
          execute(part_[0][j], row + k, threads);
          if (k + 1 < many) move_to_next_row(part_[0][j]);
        }
      row += many;
    }
  }

 private:
  static constexpr int kMax = 64, kParts = 8;
  struct Access {
    char *data, *first, *last;
    int64_t by;
    int item;
    bool stores;
    bool is(const Access& a) const { return data == a.data && by == a.by && item == a.item; }
    bool meets(const Access& a) const { return first <= a.last && a.first <= last; }
  };
  /// A part of a row, whose lanes take one way.
  struct Part {
    int64_t lo, hi;
    RowKey key;
    bool effects, in_place;
    const Code* code;  // null: its threads are run one after the other, if there are effects
    int operands, accesses;
    Access access[kMax];
    void* data[2 * kMax];
    int64_t by[kMax];
    GridScalar held[kMax];
    int64_t step[kMax];  // of `data` from a row to the next one
  };
  /// Divides a row into parts; 0: there are too many. Some values must be the same in all lanes of a part, so it ends
  /// where they change.
  template <class Start> int look_at(int64_t row, Part* parts, const Start& start) {
    int count = 0;
    start(row);
    const int64_t n = w_.n[0];
    for (int64_t lo = 0; lo < n; lo = parts[count++].hi) {
      if (count == kParts) return 0;
      Part& p = *(p_ = &parts[count]);
      if (lo > 0) start(row);
      p.lo = lo, p.hi = n, lanes_ = Path::all;
      operands_ = p.accesses = p.key.used = 0, Path::drop_all();
      p.effects = failed_ = p.in_place = false, p.code = nullptr;
      __builtin_memset(truth_, unknown, size_t(w_.program.vectors));
      const bool known = Path::body(w_.program.body) && !failed_ && p.key.fits();
      p.operands = operands_;
      if (!known) p.effects = true;
      else if (p.effects && are_independent(p)) p.code = codes_.find(w_.program, p.key);
      for (int k = 0; k < operands_; ++k) p.data[operands_ + k] = reinterpret_cast<void*>(p.by[k]);
    }
    return count;
  }
  // ---- rows that are alike -------------------------------------------------------------------------

  /// Whether the first, second and last of `rows` rows have the same parts, at addresses that are linear in the row.
  bool are_alike(int parts, int64_t rows) {
    for (int j = 0; j < parts; ++j)
      if (!are_alike(part_[0][j], part_[1][j], part_[2][j], rows)) return false;
    return true;
  }
  static bool are_alike(Part& a, const Part& b, const Part& c, int64_t rows) {
    for (const Part* p : {&b, &c})
      if (p->lo != a.lo || p->hi != a.hi || p->effects != a.effects || p->code != a.code ||
          (a.code && !(p->key == a.key)))
        return false;
    if (!a.code) return true;
    for (int k = 0; k < a.operands; ++k) {
      a.step[k] = 0;
      if (a.data[k] == &a.held[k]) {
        if (a.held[k].whole != b.held[k].whole || a.held[k].whole != c.held[k].whole) return false;
        continue;
      }
      char* const data = static_cast<char*>(a.data[k]);
      a.step[k] = static_cast<char*>(b.data[k]) - data;
      if (c.data[k] != data + a.step[k] * (rows - 1)) return false;
    }
    // what is stored in one row and accessed in another one
    for (int s = 0; s < a.accesses; ++s)
      for (int k = 0; a.access[s].stores && k < a.accesses; ++k) {
        const int64_t step = b.access[s].data - a.access[s].data;
        if (b.access[k].data - a.access[k].data == step) continue;
        if (spread(a.access[s], c.access[s]).meets(spread(a.access[k], c.access[k]))) return false;
      }
    return true;
  }
  /// The bytes from one row to another.
  static Access spread(Access a, const Access& b) {
    a.first = a.first < b.first ? a.first : b.first, a.last = a.last > b.last ? a.last : b.last;
    return a;
  }
  static void move_to_next_row(Part& p) {
    for (int k = 0; k < p.operands && p.code; ++k)
      p.data[k] = static_cast<char*>(p.data[k]) + p.step[k];
  }

  template <class Threads> void execute(Part& p, int64_t row, const Threads& threads) {
    constexpr int kWidest = 64, kFailing = 128;
    const int64_t width = kWidest / w_.item;
    int64_t lo = p.lo;
    while (p.code && p.hi - lo >= width && !w_.interrupted()) {
      const int64_t whole = lo + (p.hi - lo) / width * width;
      lo = run_native(*p.code, p.data, nullptr, lo, whole);
      if (lo < whole) {
        const int64_t end = p.hi - lo < kFailing ? p.hi : lo + kFailing;
        threads(row, lo, end);
        lo = end;
      } else if (lo < p.hi && !p.in_place &&
                 run_native(*p.code, p.data, nullptr, p.hi - width, p.hi) == p.hi) {
        lo = p.hi;
      }
    }
    if (lo < p.hi && p.effects) threads(row, lo, p.hi);
  }

  // ---- the path ------------------------------------------------------------------------------------

  bool active() const { return true; }
  void activate(bool) {}
  size_t stores() const { return 0; }
  void join(bool, size_t, size_t) {}
  enum : uint8_t { unknown, no, yes };
  uint8_t truth_of(const V& v) {
    return v.is == GridClass::scalar ? uint8_t(w_.at(v).truth ? yes : no) : truth_[v.at];
  }
  bool truth(const V&) { return true; }
  char decide(const V& v) {
    const uint8_t t = truth_of(v);
    p_->key.add(t == yes ? 'T' : t == no ? 'F' : '?');
    return t == yes ? 'T' : t == no ? 'F' : '?';
  }
  void assign(const S& s) { w_.assign(s); }

  bool value(const V& v) {
    switch (v.code) {
      case GridCode::scalar:
        if (v.divides && w_.at(*v.args.of[1]).whole == 0) return false;
        w_.step(v, {0, 1, nullptr});
        if (Path::is_order(v)) p_->key.add(w_.at(v).truth ? 'T' : 'F');
        return true;
      case GridCode::load_scalar: return access(v, false, true);
      case GridCode::vector: return operation(v);
      case GridCode::load: return access(v, false, false);
      case GridCode::spread: return linear(v);
      case GridCode::compare: return compare(v);
      default: break;
    }
    w_.step(v, {0, 1, nullptr});
    return true;
  }
  /// Whether low <= base + step * lane <= high in the lanes of the part, which ends where this changes.
  bool within(const GridNumber& f, int64_t low, int64_t high) {
    constexpr int64_t kFar = int64_t(1) << 46;
    const int64_t base = f.base.whole, step = f.step[0];
    if (base < -kFar || base > kFar || step < -kFar >> 16 || step > kFar >> 16)
      return failed_ = true, false;
    const int64_t now = base + step * p_->lo, size = step < 0 ? -step : step;
    const bool inside = low <= now && now <= high;
    if (step == 0) return inside;
    // the distance to the end that lanes move to, or to the range
    const int64_t room = inside                   ? (step > 0 ? high - now : now - low) / size + 1
                         : step > 0 && now < low  ? (low - now + size - 1) / size
                         : step < 0 && now > high ? (now - high + size - 1) / size
                                                  : p_->hi - p_->lo;
    if (room < p_->hi - p_->lo) p_->hi = p_->lo + room;
    return inside;
  }
  bool compare(const V& v) {
    GridNumber d = w_.number[v.args.of[0]->at];
    const GridNumber& y = w_.number[v.args.of[1]->at];
    if (!w_.is_small(d) || !w_.is_small(y)) return false;  // they may wrap around
    d.base.whole -= y.base.whole, d.step[0] -= y.step[0];
    constexpr int64_t kFar = int64_t(1) << 62;
    const bool holds = within(d, -kFar, v.op == op::id<op::Lt> ? -1 : 0);
    truth_[v.at] = holds ? yes : no;
    p_->key.add(holds ? 'T' : 'F');
    return !failed_;
  }
  bool linear(const V& v) {
    const GridNumber& f = w_.number[v.args.of[0]->at];
    const int64_t step = f.step[0], end = int64_t(1) << (w_.item == 4 ? 31 : 51);
    if (step != int32_t(step) || !within(f, -end + 1, end - 1)) return false;
    const bool large = step < -RowKey::kSmallStep || step > RowKey::kSmallStep;
    p_->key.add(large ? RowKey::kLargeStep : char(step));
    pass(operands_++, f.base);
    if (large) pass(operands_++, GridScalar{step});
    return true;
  }
  void pass(int operand, const GridScalar& s) {
    p_->held[operand] = s;
    p_->data[operand] = &p_->held[operand], p_->by[operand] = 0;
  }
  /// Passes a scalar operand.
  bool operand(const V& v) {
    if (v.is != GridClass::scalar) return true;
    if (v.type == GridType::boolean) return p_->key.add(w_.at(v).truth ? 'T' : 'F'), true;
    if (v.kind == V::number || Path::held(v.at) >= 0) return true;
    const GridScalar& s = w_.at(v);
    if (v.type == GridType::integer && w_.item == 4 && s.whole != int32_t(s.whole)) return false;
    pass(Path::hold(v.at), s);
    return true;
  }
  bool operation(const V& v) {
    for (int k = 0; k < v.args.count; ++k)
      if (!operand(*v.args.of[k])) return false;
    p_->effects |= v.divides;
    if (v.type != GridType::boolean) return true;
    const bool keeps = v.masked && lanes_ == Path::some;
    truth_[v.at] = keeps ? uint8_t(unknown) : truth_of_operation(v);
    return true;
  }
  uint8_t truth_of_operation(const V& v) {
    if (v.of != GridType::boolean) return unknown;
    const uint8_t a = truth_of(*v.args.of[0]), b = v.args.count > 1 ? truth_of(*v.args.of[1]) : a;
    if (v.op == kConvert) return a;
    if (v.op == op::id<op::LogicalNot>) return a == unknown ? unknown : a == yes ? no : yes;
    if (v.op == op::id<op::LogicalAnd>)
      return a == no || b == no ? no : a == yes && b == yes ? yes : unknown;
    if (v.op == op::id<op::LogicalOr>)
      return a == yes || b == yes ? yes : a == no && b == no ? no : unknown;
    return unknown;
  }
  bool store(const S& s) {
    p_->effects = true;
    return access(*s.place, true, false) && operand(*s.value);
  }
  /// The address of an access. Reads a scalar.
  bool access(const V& v, bool stores, bool one) {
    const GridTensor& t = w_.tensor[v.index];
    int64_t offset = 0, step = 0;
    bool inside = true, linear = true;
    for (int d = 0; d < t.ndim; ++d) {
      linear &= v.args.of[d]->is != GridClass::vector;
      if (v.args.of[d]->is == GridClass::vector) continue;
      const GridNumber& f = w_.number[v.args.of[d]->at];
      inside &= within(f, 1, t.size[d]);
      offset += (f.base.whole - 1) * t.stride[d], step += f.step[0] * t.stride[d];
    }
    if (!inside || (stores && step == 0)) return false;
    const int64_t item = item_size(t.dtype);
    char* const data = static_cast<char*>(t.data) + offset * item;
    if (!linear) return gather(v, data);
    const Access now{data, nullptr, nullptr, step * item, int(item), stores};
    int same = 0;
    while (same < p_->accesses && !p_->access[same].is(now)) ++same;
    const bool again = same < p_->accesses;
    p_->access[p_->accesses++] = now;
    if (one) return w_.load_scalar(v, {0, 1, nullptr}), p_->accesses < kMax;
    if (!stores && v.type == GridType::boolean) truth_[v.at] = unknown;
    p_->key.add(char('A' + int(t.dtype))), p_->key.add(step == 1 ? '1' : 'n');
    p_->key.add(char(again ? same + 1 : 0));
    p_->by[operands_] = step * item, p_->data[operands_++] = data;
    return p_->accesses < kMax;
  }
  /// Passes what the address of each lane is computed from.
  bool gather(const V& v, char* data) {
    const GridTensor& t = w_.tensor[v.index];
    const int64_t item = item_size(t.dtype);
    Access whole{nullptr, data, data + item - 1, 0, int(item), false};
    p_->key.add(char('A' + int(t.dtype))), p_->key.add('n'), p_->key.add(0);
    p_->by[operands_] = 0, p_->data[operands_++] = data;
    for (int d = 0; d < t.ndim; ++d) {
      const V& x = *v.args.of[d];
      const int64_t stride = t.stride[d], reach = (t.size[d] - 1) * stride;
      if (t.size[d] < 1 || reach != int32_t(reach) || t.size[d] != int32_t(t.size[d])) return false;
      (reach < 0 ? whole.first : whole.last) += reach * item;
      if (x.is == GridClass::vector) {
        p_->key.add('v');
        if (Path::is_full() || !operand(x)) return false;
        pass(operands_++, GridScalar{t.size[d]});
        p_->key.add(stride == 1 ? '1' : 'n');
        if (stride != 1) pass(operands_++, GridScalar{stride});
        continue;
      }
      const GridNumber& f = w_.number[x.at];
      const int64_t by = f.step[0] * stride;
      p_->key.add(by == 0 ? '0' : 'n');
      if (by != int32_t(by) || Path::is_full()) return false;
      if (by != 0) pass(operands_++, GridScalar{by});
      whole.first -= (f.base.whole - 1) * stride * item;
      whole.last -= (f.base.whole - 1) * stride * item;
    }
    if (item < 4) {  // the first element where 32 bits end
      if (whole.last - whole.first < 3 || Path::is_full()) return false;
      pass(operands_++, GridScalar{(4 - item - (data - whole.first)) / item});
    }
    p_->access[p_->accesses++] = whole;
    return p_->accesses < kMax && whole.last - whole.first < (int64_t(1) << 31);
  }
  /// Whether lanes may run side by side: what is stored is loaded before, by the same lane, or not at all.
  static bool are_independent(Part& p) {
    for (int k = 0; k < p.accesses; ++k) {
      Access& a = p.access[k];
      if (!a.data) continue;  // of any elements of a tensor
      char *const from = a.data + a.by * p.lo, *const to = a.data + a.by * (p.hi - 1);
      a.first = from < to ? from : to, a.last = (from < to ? to : from) + a.item - 1;
    }
    for (int s = 0; s < p.accesses; ++s)
      for (int k = 0; p.access[s].stores && k < p.accesses; ++k) {
        const Access &a = p.access[s], &b = p.access[k];
        if (k == s || !a.meets(b)) continue;
        if (!a.is(b) || (k > s && !b.stores)) return false;
        p.in_place |= !b.stores;
      }
    return true;
  }

  Walk& w_;
  RowCodes& codes_;
  uint8_t* const truth_;  // by register: that of all lanes
  Part* p_ = nullptr;
  bool failed_ = false;
  Part part_[3][kParts];  // of rows
};

}  // namespace MT_ISA
}  // namespace mt
