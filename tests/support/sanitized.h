// Whether this build runs under AddressSanitizer or ThreadSanitizer: they bring a malloc of their
// own, and make what is tested five to fifteen times slower.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_SANITIZED_H_
#define BEAMWRIGHT_TESTS_SUPPORT_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BEAMWRIGHT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BEAMWRIGHT_SANITIZED 1
#endif
#endif
#ifndef BEAMWRIGHT_SANITIZED
#define BEAMWRIGHT_SANITIZED 0
#endif

namespace beamwright::testing_support {

inline constexpr bool kSanitized = BEAMWRIGHT_SANITIZED;

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_SANITIZED_H_
