/* A QEMU plugin (API 1, QEMU 7 and 8) that counts executed guest instructions in a file.
 *
 * The program under emulation maps the same file and so reads the counter between its own steps:
 *     qemu-aarch64 -plugin libcount.so,counter=PATH ...
 * Its header is not packaged, so what is used of it is declared here.
 */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum plugin_op { ADD_U64 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(
    plugin_id id, void (*callback)(plugin_id id, struct qemu_plugin_tb *block));
extern void qemu_plugin_register_vcpu_tb_exec_inline(
    struct qemu_plugin_tb *block, enum plugin_op op, void *counter, uint64_t by);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t *counter;

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, counter,
                                             qemu_plugin_tb_n_insns(block));
}

__attribute__((visibility("default"))) int qemu_plugin_install(
    plugin_id id, const void *info, int n_words, char **words)
{
    if (n_words != 1 || strncmp(words[0], "counter=", 8) != 0)
        return 1;
    int file = open(words[0] + 8, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(*counter)) != 0)
        return 1;
    counter = mmap(NULL, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (counter == MAP_FAILED)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
