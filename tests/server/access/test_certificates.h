// Certificates made in a test: an authority, and what it signs.
#ifndef BEAMWRIGHT_TESTS_SERVER_ACCESS_TEST_CERTIFICATES_H_
#define BEAMWRIGHT_TESTS_SERVER_ACCESS_TEST_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace beamwright::access {

// PEM.
struct Issued {
  std::string cert;
  std::string key;
};

struct Validity {
  int from_s = -3600;  // from now
  int to_s = 3600;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);

  // names: as openssl.cnf has them, "DNS:localhost,IP:127.0.0.1,URI:spiffe://a/b"; may be empty.
  Issued Issue(const std::string& common_name, const std::string& names, Validity validity = {});
  std::string cert() const;

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  Key key_;
  Certificate cert_;
  int64_t next_serial_ = 2;
};

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_TESTS_SERVER_ACCESS_TEST_CERTIFICATES_H_
