// download.h -- downloads with libcurl, which is loaded at first use
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace mt {

/// The expected checksum of a download in hexadecimal, "" for any, and its maximum size.
struct Expected {
  std::string sha256, md5;
  uint64_t most = uint64_t(1) << 40;
};

/// Downloads url (http, https) to path: first to path.part, which a later call resumes, and renames
/// it when it is complete and its checksum is right. progress(done, total) is called regularly;
/// total is 0 if unknown. Throws Error with url and reason.
void download(const std::string& url, const std::string& path, const Expected&,
              const std::function<void(uint64_t, uint64_t)>& progress);

/// The checksum of bytes in hexadecimal, 'sha256' or 'md5', computed by libcrypto.
std::string digest(const std::string& kind, const std::string& bytes);

}  // namespace mt
