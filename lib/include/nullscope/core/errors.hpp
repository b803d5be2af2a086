/// The errors that Nullscope throws. Each says what went wrong, with the names and shapes of the operands.
/// invalid_argument and unsupported_device come before the first launch of the function that throws: nothing has been
/// overwritten then.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nullscope {

/// Base of every error of this library.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes, strides, pointers, options or text that a function cannot take.
class invalid_argument : public error {
 public:
  using error::error;
};

/// No device fits the request, or the device lacks what the call needs (fp64, matrix tiles, local memory).
class unsupported_device : public error {
 public:
  using error::error;
};

/// An allocation on a device failed; the message says how many bytes were asked for, and of which device.
class device_bad_alloc : public error {
 public:
  using error::error;
};

/// A kernel did not compile at run time; the message ends with the compiler's log.
class compilation_error : public error {
 public:
  using error::error;
};

/// A file that cannot be opened, read or written, or whose content is malformed.
class file_error : public error {
 public:
  using error::error;
};

/// An algorithm failed on some matrices of a batch: they did not converge, or held NaN or infinity. Only functions that
/// wait throw it; the others give a status for each matrix.
class computation_error : public error {
 public:
  computation_error(const std::string& message, std::vector<std::int64_t> failed_batch_ids)
      : error(message), failed_batch_ids_(std::move(failed_batch_ids)) {}

  /// The matrices that failed, ascending.
  const std::vector<std::int64_t>& failed_batch_ids() const { return failed_batch_ids_; }

 private:
  std::vector<std::int64_t> failed_batch_ids_;
};

}  // namespace nullscope
