#include "tests/server/access/test_certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace beamwright::access {
namespace {

std::string Text(BIO* bio) {
  char* data = nullptr;
  const int64_t size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string Pem(X509* cert) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, cert);
  return Text(bio);
}

std::string Pem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return Text(bio);
}

void AddExtension(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  X509_add_ext(cert, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(const std::string& name, EVP_PKEY* key, int64_t serial, Validity validity) {
  X509* cert = X509_new();
  X509_set_version(cert, X509_VERSION_3);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(cert), serial);
  X509_gmtime_adj(X509_getm_notBefore(cert), validity.from_s);
  X509_gmtime_adj(X509_getm_notAfter(cert), validity.to_s);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.data()),
                             static_cast<int>(name.size()), -1, 0);
  return cert;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
      cert_(NewCertificate(name, key_.get(), 1, {-7200, 7200}), X509_free) {
  X509_set_issuer_name(cert_.get(), X509_get_subject_name(cert_.get()));
  AddExtension(cert_.get(), cert_.get(), NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(cert_.get(), cert_.get(), NID_subject_key_identifier, "hash");
  X509_sign(cert_.get(), key_.get(), EVP_sha256());
}

Issued TestAuthority::Issue(const std::string& common_name, const std::string& names,
                            Validity validity) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate cert(NewCertificate(common_name, key.get(), next_serial_++, validity),
                         X509_free);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(cert_.get()));
  if (!names.empty()) {
    AddExtension(cert.get(), cert_.get(), NID_subject_alt_name, names);
  }
  X509_sign(cert.get(), key_.get(), EVP_sha256());
  return {Pem(cert.get()), Pem(key.get())};
}

std::string TestAuthority::cert() const { return Pem(cert_.get()); }

}  // namespace beamwright::access
