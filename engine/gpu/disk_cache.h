// disk_cache.h -- compiled code kept on disk by its content: what went in is the key, whole
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mt {

/// A folder of entries, each a key and a value of any bytes. Nothing about it is ever an error: what
/// cannot be read or written, is damaged, or has another key, is not there.
class DiskCache {
 public:
  /// `folder` may not exist yet; an empty one means: no cache. When the entries hold more than
  /// `limit` bytes together, those used longest ago are thrown out.
  explicit DiskCache(std::string folder, int64_t limit = int64_t(256) << 20);

  /// The value that was stored with exactly this key.
  std::optional<std::string> find(std::string_view key) const;
  /// Keeps a value; whether that worked. Others see the old entry or the new one, never a part.
  bool store(std::string_view key, std::string_view value) const;
  /// The file of a key, whether or not it exists.
  std::string path_of(std::string_view key) const;
  const std::string& folder() const { return folder_; }

 private:
  void sweep() const;
  std::string folder_;
  int64_t limit_;
};

/// Where mtorch keeps compiled code: $MTORCH_CACHE, $XDG_CACHE_HOME/mtorch or ~/.cache/mtorch;
/// MTORCH_CACHE=off keeps nothing.
const DiskCache& code_cache();

}  // namespace mt
