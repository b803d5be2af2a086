/// A stand-in for cuSOLVER that records what it is called with, and decomposes on the host by Jacobi rotations.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/vendor/recorded_svd.hpp"

namespace {

using nullscope::test::recorded_svd;
using column = std::vector<double>;

recorded_svd recorded{};
int handles = 0, parameters = 0;

double dot(const column& x, const column& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

void rotate(column& x, column& y, double cosine, double sine) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double left = x[i];
    x[i] = cosine * left - sine * y[i];
    y[i] = sine * left + cosine * y[i];
  }
}

/// Turns the columns of w = a v until they are orthogonal.
void orthogonalise(std::vector<column>& w, std::vector<column>& v) {
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (std::size_t p = 0; p < w.size(); ++p) {
      for (std::size_t q = p + 1; q < w.size(); ++q) {
        const double product = dot(w[p], w[q]);
        if (product == 0) continue;
        const double zeta = (dot(w[q], w[q]) - dot(w[p], w[p])) / (2 * product);
        const double tangent = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
        const double cosine = 1 / std::hypot(1.0, tangent);
        rotate(w[p], w[q], cosine, cosine * tangent);
        rotate(v[p], v[q], cosine, cosine * tangent);
      }
    }
  }
}

/// Adds columns until there are `count`, each orthogonal to those before.
void complete(std::vector<column>& u, std::size_t count) {
  for (std::size_t unit = 0; u.size() < count; ++unit) {
    column next(u[0].size());
    next[unit] = 1;
    for (int twice = 0; twice < 2; ++twice) {
      for (const column& one : u) {
        const double share = dot(one, next);
        for (std::size_t i = 0; i < next.size(); ++i) next[i] -= share * one[i];
      }
    }
    const double length = std::sqrt(dot(next, next));
    if (length < 0.1) continue;
    for (double& x : next) x /= length;
    u.push_back(next);
  }
}

template <class T>
int decompose(const T* a, T* s, T* u, T* vt) {
  const auto m = static_cast<std::size_t>(recorded.m), n = static_cast<std::size_t>(recorded.n);
  std::vector<column> w, v, left;
  for (std::size_t j = 0; j < n; ++j) {
    w.emplace_back(a + j * m, a + (j + 1) * m);
    v.emplace_back(n)[j] = 1;
  }
  for (const column& one : w) {
    for (const double x : one) recorded.saw_not_finite |= !std::isfinite(x);
  }
  if (recorded.saw_not_finite) return -1;
  orthogonalise(w, v);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater(), [&](std::size_t j) { return dot(w[j], w[j]); });
  for (std::size_t j = 0; j < n; ++j) {
    const double value = std::sqrt(dot(w[order[j]], w[order[j]]));
    s[j] = static_cast<T>(value);
    if (value == 0) continue;
    left.push_back(w[order[j]]);
    for (double& x : left.back()) x /= value;
  }
  if (recorded.u_job == 'N') return 0;
  if (left.empty()) left.emplace_back(m)[0] = 1;
  complete(left, recorded.u_job == 'A' ? m : n);
  for (std::size_t j = 0; j < left.size(); ++j)
    std::ranges::transform(left[j], u + j * m, [](double x) { return T(x); });
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) vt[j * n + i] = static_cast<T>(v[order[i]][j]);
  }
  return 0;
}

}  // namespace

extern "C" {

const recorded_svd* last_svd() { return &recorded; }

int cusolverDnCreate(void** handle) {
  *handle = &handles;
  return ++handles == 1 ? 0 : 1;  // one is enough
}

int cusolverDnSetStream(void* handle, void*) { return handle == &handles ? 0 : 1; }

int cusolverDnCreateParams(void** made) {
  *made = &parameters;
  return ++parameters == 1 ? 0 : 1;  // those before have been destroyed
}

int cusolverDnDestroyParams(void* made) { return made == &parameters && --parameters == 0 ? 0 : 1; }

int cusolverDnXgesvd_bufferSize(void* handle, void* with, signed char, signed char, std::int64_t m, std::int64_t n, int,
                                const void*, std::int64_t, int, const void*, int, const void*, std::int64_t, int,
                                const void*, std::int64_t, int, std::size_t* device_bytes, std::size_t* host_bytes) {
  *device_bytes = recorded_svd::device_bytes;
  *host_bytes = recorded_svd::host_bytes;
  return handle == &handles && with == &parameters && m >= n ? 0 : 3;
}

int cusolverDnXgesvd(void* handle, void* with, signed char u_job, signed char vt_job, std::int64_t m, std::int64_t n,
                     int a_type, void* a, std::int64_t a_leading, int s_type, void* s, int u_type, void* u,
                     std::int64_t u_leading, int vt_type, void* vt, std::int64_t vt_leading, int compute,
                     void* device_memory, std::size_t device_bytes, void* host_memory, std::size_t host_bytes,
                     int* info) {
  if (handle != &handles || with != &parameters || m < n || a_leading != m || u_leading != m || vt_leading != n)
    return 3;
  if (a_type != s_type || a_type != u_type || a_type != vt_type || a_type != compute) return 3;
  recorded.calls += 1;
  recorded.m = m;
  recorded.n = n;
  recorded.u_job = static_cast<char>(u_job);
  recorded.vt_job = static_cast<char>(vt_job);
  recorded.has_memory = device_memory != nullptr && host_memory != nullptr &&
                        device_bytes == recorded_svd::device_bytes && host_bytes == recorded_svd::host_bytes;
  const auto run = [&]<class T>(T* matrix) {
    const bool is_refused = static_cast<double>(*matrix) == recorded_svd::refused;
    *info = decompose(matrix, static_cast<T*>(s), static_cast<T*>(u), static_cast<T*>(vt));
    if (is_refused) *info = 3;
    return 0;
  };
  if (a_type == 0) return run(static_cast<float*>(a));
  if (a_type == 1) return run(static_cast<double*>(a));
  return 9;  // CUSOLVER_STATUS_NOT_SUPPORTED
}

}  // extern "C"
