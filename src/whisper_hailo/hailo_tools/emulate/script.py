"""The model script that the compiler would be given, for the layers of an emulation."""

from __future__ import annotations

from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.hailo_tools.compile import as_program_error
from whisper_hailo.hailo_tools.emulate.layers import EmulatedNetwork
from whisper_hailo.hailo_tools.hef_build.fault import BuildError
from whisper_hailo.hailo_tools.hef_build.job import BuildJob
from whisper_hailo.hailo_tools.hef_build.network import read_network as read_description
from whisper_hailo.hailo_tools.hef_build.recipe import default_windows, size_of
from whisper_hailo.hailo_tools.hef_build.script import model_script


def generated_script(spec: ModelSpec, form: HailoForm, arch: str, network: EmulatedNetwork) -> str:
    """Write the script as `whisper-hailo compile` does.

    Args:
        spec: the model.
        form: the graph.
        arch: `hailo8`, `hailo8l` or `hailo10h`.
        network: the graph's layers, in the place of those that the compiler would have parsed.

    Raises:
        ModelError: the network is not what the recipe is for.
    """
    dims = spec.dims
    size = size_of(dims.d_model, multilingual=spec.multilingual)
    is_encoder = form.part == "encoder"
    job = BuildJob(
        arch=arch,
        part=form.part,
        size=size,
        net_name="net",
        graph=form.file,
        start_nodes=list(form.start_nodes),
        end_nodes=list(form.end_nodes),
        chip_inputs=[list(shape) for shape in form.chip_inputs],
        d_model=dims.d_model,
        n_layers=dims.n_encoder_layers if is_encoder else dims.n_decoder_layers,
        calibration="",
        script=None,
        optimization_level=None,
        out="",
        stem="net",
    )
    try:
        description = read_description(network.description(job.net_name))
        return model_script(job, description, default_windows(form.part, size))
    except BuildError as error:
        raise as_program_error(error) from error
