// A libgnutls that cannot encrypt, for wheels: libmicrohttpd is linked to one, and `ramet serve` speaks plain HTTP.
// Saves the wheel GnuTLS and the eight libraries that it needs. no_tls.map gives the names the versions that GnuTLS
// has.
//
// GnuTLS is ready, and whatever encrypts is not implemented: a server that asks for TLS does not start.
namespace {

constexpr int kReady = 0, kNotImplemented = -1250;  // GNUTLS_E_UNIMPLEMENTED_FEATURE

}  // namespace

#define RAMET_NO_TLS(name) \
  int gnutls_##name() { return kNotImplemented; }

#pragma GCC visibility push(default)
extern "C" {

int gnutls_global_init() { return kReady; }
void gnutls_global_deinit() {}
const char* gnutls_strerror(int) { return "this build has no TLS"; }
void* gnutls_malloc = nullptr;

RAMET_NO_TLS(alpn_set_protocols)
RAMET_NO_TLS(bye)
RAMET_NO_TLS(certificate_allocate_credentials)
RAMET_NO_TLS(certificate_free_credentials)
RAMET_NO_TLS(certificate_server_set_request)
RAMET_NO_TLS(certificate_set_dh_params)
RAMET_NO_TLS(certificate_set_retrieve_function2)
RAMET_NO_TLS(certificate_set_retrieve_function3)
RAMET_NO_TLS(certificate_set_x509_key_mem)
RAMET_NO_TLS(certificate_set_x509_key_mem2)
RAMET_NO_TLS(certificate_set_x509_trust_mem)
RAMET_NO_TLS(cipher_get)
RAMET_NO_TLS(credentials_set)
RAMET_NO_TLS(deinit)
RAMET_NO_TLS(dh_params_deinit)
RAMET_NO_TLS(dh_params_import_pkcs3)
RAMET_NO_TLS(dh_params_init)
RAMET_NO_TLS(handshake)
RAMET_NO_TLS(init)
RAMET_NO_TLS(priority_deinit)
RAMET_NO_TLS(priority_init)
RAMET_NO_TLS(priority_set)
RAMET_NO_TLS(protocol_get_version)
RAMET_NO_TLS(psk_allocate_server_credentials)
RAMET_NO_TLS(psk_free_server_credentials)
RAMET_NO_TLS(psk_set_server_credentials_function)
RAMET_NO_TLS(record_check_pending)
RAMET_NO_TLS(record_get_direction)
RAMET_NO_TLS(record_recv)
RAMET_NO_TLS(record_send)
RAMET_NO_TLS(session_get_ptr)
RAMET_NO_TLS(session_set_ptr)
RAMET_NO_TLS(transport_set_int2)

}  // extern "C"
#pragma GCC visibility pop
