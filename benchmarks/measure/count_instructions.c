/* A plug-in of QEMU that counts the instructions of a program in user mode.
 *
 * What it needs of QEMU's interface (version 1) is declared here: not every system has the header. */

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t Id;
enum { ADD_U64 };
extern void qemu_plugin_register_vcpu_tb_trans_cb(Id, void (*)(Id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern void qemu_plugin_register_atexit_cb(Id, void (*)(Id, void *), void *);
extern int qemu_plugin_install(Id, const void *, int, char **);

int qemu_plugin_version = 1;
static uint64_t count;

static void translated(Id id, struct qemu_plugin_tb *block) {
    (void)id;
    uint64_t instructions = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &count, instructions);
}

static void finished(Id id, void *data) {
    (void)id, (void)data;
    fprintf(stderr, "%" PRIu64 "\n", count);
}

int qemu_plugin_install(Id id, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
