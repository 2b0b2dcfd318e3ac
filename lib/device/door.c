// librrdma-device.so.1 contains no code. Its dependencies and their order are its purpose: RRDMA, then
// librdmacm and libibverbs, which take RRDMA's functions before the C library's. rrdma::comm opens it (ADR
// 0030).
